python3 - <<'PYTHON'
import json, re
moves, stack, last = [], [], 0
for bracket, player, place in re.findall(r"([()])|\b([BW])\[([a-z]{2})\]", open("/home/challenge/game.sgf").read()):
    if bracket == "(": stack.append(last)
    elif bracket == ")": last = stack.pop() if stack else last
    else:
        moves.append({"id": len(moves) + 1, "player": player, "position": place, "parent_id": last})
        last = len(moves)
json.dump({"moves": moves}, open("/home/challenge/solution.json", "w"))
PYTHON
