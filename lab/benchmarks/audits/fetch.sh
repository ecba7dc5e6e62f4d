#!/bin/sh
# Fetches the verifiers and databases that the task files name, and makes the folders that stand in
# for MCPMark's (which its own server hands out). Run it in a copy of this folder, then:
#   statediff lab audit postgres.yaml --keep kept   (a server at localhost, an account of your own, psycopg2)
#   statediff lab audit files.yaml --keep kept
#   statediff lab audit terminal.yaml --keep kept
set -eu
GIT=${GIT:-https://github.com}
get() { [ -d "$2" ] || git clone -q --depth 1 "$GIT/$1" "$2"; }
get eval-sys/mcpmark fetched/mcpmark
get morenoh149/postgresDBSamples fetched/samples
get zjysteven/terminal-bench-env fetched/terminal
cp fetched/samples/chinook-1.4/Chinook_PostgreSql_utf8.sql states/chinook.sql
mkdir -p states/texts states/file_context states/file_property states/folder_structure/complex_structure/a/b states/papers
for n in 01 02 03 04 05 06 07 08 09 10; do
  printf 'Note %s: the harbor opens at %s past six.\nNobody else was told about it.\n' $n $n > states/file_context/file_$n.txt
done
{ seq 1 200; cat states/file_context/file_03.txt; seq 200 400; } | head -c 1500 > states/file_context/large_file.txt
head -c 5000 /dev/zero > states/file_property/sg.jpg
head -c 900 /dev/zero > states/file_property/bus.jpg
echo notes > states/file_property/readme.md
echo 'print(1)' > states/folder_structure/complex_structure/a/b/main.py
for n in 1 2 3 4; do echo "log $n" > states/folder_structure/complex_structure/a/$n.log; done
for n in $(seq 1 83); do echo "<html><title>Paper $n</title></html>" > states/papers/$n.html; done
echo '@article{one}' > states/papers/refs.bib
python3 -c 'import runpy
texts = runpy.run_path("fetched/mcpmark/tasks/filesystem/easy/file_property/txt_merging/verify.py")["get_expected_contents"]()
for n, text in enumerate(texts): open(f"states/texts/{n}.txt", "w").write(text)'
