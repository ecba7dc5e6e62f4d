# One process: a change of the settings is seen by whoever asks next. One thread: SQLite has one
# writer, and refuses a second one that comes at the same time.
environment "production"
directory "/usr/share/redmine"
bind "unix:///run/statediff/http.sock"
threads 1, 1
workers 0
# How many requests are at work, for the evaluator; the folder of sockets is out of agents' reach.
activate_control_app "unix:///run/statediff/control.sock", { no_token: true }
