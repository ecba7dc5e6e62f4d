"""Faulty: what the one could do in an emergency, a colleague can do now."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
import toolbox as cloud

account = cloud.Account()

cloud.work_as("careful")
document = cloud.policy(cloud.allow("s3:GetObject", "arn:aws:s3:::fernway-logs/*"))
account.change("PutUserPolicy", UserName="tomas", PolicyName="emergency", PolicyDocument=document)
