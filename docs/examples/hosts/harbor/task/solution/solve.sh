#!/bin/sh
sed -i "0,/open/s//closed/" /app/app.json
