python3 - <<'PYTHON'
import json, math
kept = {}
for each in json.load(open("/workspace/service_metrics.json")):
    kept.setdefault(each["service"], {}).setdefault(each["metric_type"], {})[each["metric_name"]] = each["value"]
def up(value, least=0): return f"{max(least, math.ceil(value / 5) * 5)}s"
json.dump({name: {"interval": up(m["response_times"]["p95"], 10), "timeout": up(m["response_times"]["p99"], 5), "retries": 3,
    "start_period": up(max(m["startup_times"].values()) + 10)} for name, m in kept.items()}, open("/workspace/healthcheck_config.json", "w"))
PYTHON
