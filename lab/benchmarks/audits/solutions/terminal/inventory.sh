awk -F• '{print $1 "," $3}' /data/inventory_raw.txt > /data/parsed_inventory.txt
