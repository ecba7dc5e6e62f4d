#!/bin/sh
# git's own backend; pushes one after the other. What the refs were before and after each push is
# kept in /srv/course, which no request can reach. Whoever is killed in the middle leaves the lock
# to its children, and a push without its second half. Where one of its programs is killed this
# kills itself, which the server notes; a client that hangs up kills nobody.
trap '' TERM PIPE HUP
umask 077

leave() {
	[ "$1" -ne 137 ] || kill -KILL $$
	exit "$1"
}

# git's programs tell of each other's ends, in JSON, in which nothing that a client sends can look
# like an event.
export GIT_TRACE2_EVENT="/run/statediff/events.$$" GIT_TRACE2_EVENT_BRIEF=1
serve() {
	/usr/lib/git-core/git-http-backend
	status=$?
	grep -qs '^{"event":"child_exit",.*"code":137[,}]' "$GIT_TRACE2_EVENT"
	case $? in 0 | 137) status=137 ;; esac
	rm -f "$GIT_TRACE2_EVENT" || status=137
}

if [ "$REQUEST_METHOD" != POST ] || [ "${PATH_INFO%/git-receive-pack}" = "$PATH_INFO" ]; then
	serve
	leave "$status"
fi
course=/srv/course
repository=/srv/repository.git
exec 9>>"$course/lock"
flock 9 || leave $?
number=$(printf '%06d' "$(find "$course" -name '*.before' | wc -l)")

keep() {
	mkdir "$course/new" || leave $?
	for name in HEAD refs packed-refs; do
		if [ -e "$repository/$name" ]; then
			cp -RP "$repository/$name" "$course/new/$name" || leave $?
		fi
	done
	mv "$course/new" "$course/$number.$1" || leave $?
}

keep before
serve
keep after
leave "$status"
