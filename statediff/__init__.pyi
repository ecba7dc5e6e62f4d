from statediff.api import Judged as Judged
from statediff.api import StatediffError as StatediffError
from statediff.api import Trial as Trial
from statediff.api import Verdict as Verdict
from statediff.api import changes as changes
from statediff.api import judge as judge
from statediff.api import lint as lint
from statediff.api import load as load
from statediff.api import load_contract as load_contract
from statediff.api import open_sandbox as open_sandbox
from statediff.api import replay as replay
from statediff.api import run as run

__all__ = [
    "Judged",
    "StatediffError",
    "Trial",
    "Verdict",
    "changes",
    "judge",
    "lint",
    "load",
    "load_contract",
    "open_sandbox",
    "replay",
    "run",
]

__version__: str
