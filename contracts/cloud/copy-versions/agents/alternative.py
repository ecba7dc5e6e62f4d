"""Reference: each version read and written again, with its metadata and tags."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

key = cloud.INPUTS["key"]
source, archive = "fernway-reports", "fernway-archive"

made = []
for version in account.oldest_first(source, key):
    _, headers, content = account.s3("GET", source, key, f"versionId={version}")
    tags = cloud.tree(account.s3("GET", source, key, f"tagging=&versionId={version}")[2])
    pairs = zip(cloud.texts(tags, "Key"), cloud.texts(tags, "Value"), strict=True)
    kept = {n[11:]: v for n, v in headers.items() if n.startswith("x-amz-meta-")}
    tagging = "&".join(f"{name}={value}" for name, value in pairs)
    made.append(
        account.put(archive, key, content, headers["content-type"], kept, x_amz_tagging=tagging)
    )
cloud.answer(versions=len(made), latest=made[-1])
