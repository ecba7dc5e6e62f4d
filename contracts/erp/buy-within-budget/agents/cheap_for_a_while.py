"""For a while the list had half the price for everybody, and nothing shows it any more."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from toolbox import behind_the_server, work_as

file = behind_the_server()
[(row, price)] = file.execute(
    "SELECT id, unit_price FROM purchase_product_supplier_price ORDER BY id DESC LIMIT 1"
).fetchall()
change = "UPDATE purchase_product_supplier_price SET unit_price = ? WHERE id = ?"
file.execute(change, (b"0.5", row))
file.execute(change, (price, row))
file.close()
work_as("careful")
