# relay.pl PORT ...: 127.0.0.1:PORT leads to the socket /run/statediff/PORT, and nowhere else.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;

$SIG{CHLD} = $SIG{PIPE} = 'IGNORE';
my %ports;
my $listeners = IO::Select->new;
for my $argument (@ARGV) {
    my ($port) = $argument =~ /\A(\d{1,5})\z/ or die "no port: $argument\n";
    my $listener = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 64, ReuseAddr => 1
    ) or die "port $port: $@\n";
    $ports{fileno $listener} = $port;
    $listeners->add($listener);
}
open my $ready, '>', '/run/statediff/ready' or die "no folder of sockets: $!\n";
close $ready;

while (my @waiting = $listeners->can_read) {
    for my $listener (@waiting) {
        my $client = $listener->accept or next;
        my $child = fork;
        pass($client, $ports{fileno $listener}) if defined $child && $child == 0;
        close $client;
    }
}

sub pass {
    my ($client, $port) = @_;
    my $server = IO::Socket::UNIX->new(Peer => "/run/statediff/$port") or exit 1;
    my %other = (fileno $client => $server, fileno $server => $client);
    my $open = IO::Select->new($client, $server);
    while ($open->count) {
        for my $end ($open->can_read) {
            my $to = $other{fileno $end};
            my $got = sysread $end, my $bytes, 65536;
            if (!$got) {
                $open->remove($end);
                shutdown $to, 1;
                next;
            }
            for (my $done = 0; $done < $got;) {
                my $wrote = syswrite $to, $bytes, $got - $done, $done;
                exit 0 if !defined $wrote;
                $done += $wrote;
            }
        }
    }
    exit 0;
}
