#!/bin/sh
# git's own backend; pushes one after the other. What the refs were before and after each push is
# kept in /srv/course, which no request can reach. Whoever is killed in the middle leaves the lock
# to its children, and a push without its second half.
backend=/usr/lib/git-core/git-http-backend
if [ "$REQUEST_METHOD" != POST ] || [ "${PATH_INFO%/git-receive-pack}" = "$PATH_INFO" ]; then
	exec "$backend"
fi
trap '' TERM PIPE HUP
course=/srv/course
repository=/srv/repository.git
umask 077
exec 9>>"$course/lock"
flock 9 || exit 1
number=$(printf '%06d' "$(find "$course" -name '*.before' | wc -l)")

keep() {
	mkdir "$course/new" || exit 1
	for name in HEAD refs packed-refs; do
		if [ -e "$repository/$name" ]; then
			cp -RP "$repository/$name" "$course/new/$name" || exit 1
		fi
	done
	mv "$course/new" "$course/$number.$1" || exit 1
}

keep before
"$backend"
status=$?
keep after
exit "$status"
