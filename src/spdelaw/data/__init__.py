"""The data contract: fields, files, preparation; NaN is missing."""

from spdelaw.data.fields import as_fields as as_fields
from spdelaw.data.fields import stack as stack
from spdelaw.data.io.files import read as read
from spdelaw.data.io.files import write as write
from spdelaw.data.io.tables import from_table as from_table
from spdelaw.data.observed import Observed as Observed
from spdelaw.data.observed import observe as observe
from spdelaw.data.prepare import Preparation as Preparation
from spdelaw.data.splits import mask as mask
from spdelaw.data.splits import split as split
from spdelaw.data.summary import describe as describe
