#!/usr/bin/env bash
# Reads machines through a real sshd on loopback: what each failure leads to, and every login shell on the other side.
#
#   sudo apt install openssh-server openssh-client fish tcsh zsh     (Debian 12: OpenSSH 9.2, fish 3.6, tcsh 6.24, zsh 5.9)
#   cargo build && sudo tests/parts/ssh.sh [target/debug/oomdoctor]
#
# Runs in namespaces of its own over a copy-on-write root: users, keys and files are gone afterwards.
# Exits with 1 at the first thing that is not as it should be.
set -euo pipefail
if [ "${1:-}" != --inside ]; then
  cd "$(dirname "$0")/../.."
  exec unshare -m -p -n -f --mount-proc "$0" --inside "$(realpath "${1:-target/debug/oomdoctor}")" "$(realpath "$0")"
fi
if [ "${4:-}" != --root ]; then
  mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir up work root
  mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work root
  for folder in proc dev sys; do mount --rbind /$folder root/$folder; done
  # Files on mounts below the root are not part of the overlay.
  cp "$2" root/oomdoctor.new && cp "$3" root/ssh.sh && rm -rf root/tmp && mkdir -m 1777 root/tmp
  exec chroot root /bin/bash /ssh.sh --inside /oomdoctor.new - --root
fi
program=/oomdoctor.new
ip link set lo up
export XDG_CONFIG_HOME=/none XDG_STATE_HOME=/none HOME=/root
mkdir -p /run/sshd /root/.ssh && chmod 700 /root/.ssh && rm -f /root/.ssh/* && cd /root
ssh-keygen -q -t ed25519 -N '' -f .ssh/id_ed25519 && ssh-keygen -q -t ed25519 -N '' -f hk && ssh-keygen -q -t ed25519 -N '' -f .ssh/other
for login in ada:bash noisy:bash fish:fish csh:tcsh zsh:zsh bare:bash; do
  name=${login%:*}
  useradd -m -p '*' -s "$(command -v "${login#*:}")" "$name"
  mkdir -m 700 "/home/$name/.ssh" && cp .ssh/id_ed25519.pub "/home/$name/.ssh/authorized_keys" && chown -R "$name:" "/home/$name/.ssh"
done
# A shell without a login has no ~/.local/bin in its PATH.
install -D -o ada "$program" /home/ada/.local/bin/oomdoctor
# bash reads ~/.bashrc under sshd; this one does not end its line.
install -D -o noisy "$program" /home/noisy/.cargo/bin/oomdoctor
printf 'echo WELCOME to gpu1; printf "\\033[1mnews: "\n' > /home/noisy/.bashrc
cat > /usr/local/bin/nvidia-smi <<'S'
#!/bin/sh
case "$*" in
*--query-gpu=index,uuid*) echo '0, GPU-aaaa, 00000000:01:00.0, 550.90.07, 81559, 70001, 11012, 97, 61, 312.54, NVIDIA A100-SXM4-80GB' ;;
*mig.mode*) echo '0, Disabled' ;;
*compute-apps*) echo "GPU-aaaa, $(cat /busy), 60000, sleep" ;;
esac
S
chmod 755 /usr/local/bin/nvidia-smi
sleep 1000 & echo $! > /busy
cat > sshd.conf <<C
ListenAddress 127.0.0.1
HostKey /root/hk
UsePAM no
PidFile /root/sshd.pid
SetEnv PATH=/usr/local/bin:/usr/bin:/bin
Match User bare
  SetEnv PATH=/usr/bin:/bin
C
/usr/sbin/sshd -f sshd.conf -p 2222 -E sshd.log
cat > .ssh/config <<C
Host gpu1 big
  User ada
Host silent
  Port 2224
Host gone
  Port 2223
Host locked
  IdentityFile /root/.ssh/other
  IdentitiesOnly yes
Host unknown
  UserKnownHostsFile /root/none
  StrictHostKeyChecking yes
Host changed
  UserKnownHostsFile /root/changed
Host shared
  User ada
  ControlMaster auto
  ControlPath /root/cm-%C
  ControlPersist 60
Host *
  HostName 127.0.0.1
  Port 2222
C
sed -i '/^Host \*/i Host nowhere\n  HostName nowhere.invalid' .ssh/config
echo "[127.0.0.1]:2222 $(cut -d' ' -f1,2 hk.pub)" > .ssh/known_hosts
echo "[127.0.0.1]:2222 $(cut -d' ' -f1,2 .ssh/other.pub)" > changed
# Takes connections and never says a word.
python3 -c "import socket, time; s = socket.create_server(('127.0.0.1', 2224)); time.sleep(1000)" &

# Prints the machines' JSON and checks it with Python, where `host` finds a machine by its name.
ask() {
  "$program" --interval 0.3 ps --json --full --host "$1" "${@:3}" > out.json 2> err.txt || true
  python3 - "$2" <<'P' || { cat out.json err.txt sshd.log; exit 1; }
import json, sys
hosts = json.load(open("out.json"))["hosts"]
def host(name): return next(one for one in hosts if one["host"] == name)
def why(name): print(f"   {name}: {host(name)['unavailable']}"); return host(name)["unavailable"]
exec(sys.argv[1])
P
}

echo "== readings"
ask gpu1,big,noisy@gpu1 "
assert len(hosts) == 1, [one['host'] for one in hosts]
assert hosts[0]['also'] == ['big', 'noisy@gpu1'] and hosts[0]['through'] == 'ssh' and hosts[0]['snapshot'] and hosts[0]['boot_id'], hosts"
echo "== each login shell, without oomdoctor there"
for name in fish csh zsh; do
  ask "$name@box" "
one = hosts[0]
assert one['through'] == 'nvidia-smi', one
[gpu] = one['snapshot']['devices']
[process] = gpu['processes']
assert gpu['memory']['free_bytes'] == 11012 << 20 and gpu['name'].endswith('80GB'), gpu
assert process['user'] == 'root' and process['command'] == 'sleep 1000' and not process['proved'] and process['start_ticks'] is None, process
assert one['boot_id'], one"
done
echo "== failures"
start=$(date +%s%N)
ask locked,unknown,changed,gone,nowhere,silent,bare@box,gpu1 "
assert 'Permission denied' in why('locked')
assert 'not known' in why('unknown') and 'ssh unknown' in why('unknown')
assert 'changed' in why('changed')
assert 'refused' in why('gone')
assert 'resolve' in why('nowhere')
assert 'timed out' in why('silent') or 'answer' in why('silent')
assert 'installed' in why('bare@box')
assert host('gpu1')['snapshot']"
echo "   all of them in $((($(date +%s%N) - start) / 1000000)) ms"
grep -q nowhere known_hosts 2>/dev/null && exit 1
echo "== a connection that is kept for others"
for _ in 1 2; do ask shared "assert host('shared')['snapshot'], hosts"; done
ssh -O exit shared 2>/dev/null
echo "== sent"
send() { ask "$1" "$2" --send; }
left() { find /home /tmp /run -name '*oomdoctor-0*' -o -name 'oomdoctor-[0-9]*' 2>/dev/null; }
send fish@box "assert hosts[0]['through'] == 'ssh' and hosts[0]['snapshot'], hosts"
send csh@box "assert hosts[0]['through'] == 'ssh' and hosts[0]['snapshot'], hosts"
[ -z "$(left)" ] || { left; exit 1; }
mount -t tmpfs -o noexec,mode=1777 tmpfs /tmp && mkdir -p /home/zsh/.cache && mount -t tmpfs -o noexec tmpfs /home/zsh/.cache && chown zsh /home/zsh/.cache
send zsh@box "assert 'noexec' in why('zsh@box')"
[ -z "$(left)" ] || { left; exit 1; }
umount /tmp
echo "== a folder that another user prepared is not used"
mkdir -m 777 "/tmp/oomdoctor-$(id -u zsh)"
send zsh@box "assert 'noexec' in why('zsh@box')"
echo "== our death ends what was started"
"$program" ps --host silent > /dev/null 2>&1 & victim=$!
for _ in $(seq 100); do pgrep -x ssh > /dev/null && break; sleep 0.05; done
kill -9 $victim && wait $victim 2>/dev/null || true
for _ in $(seq 100); do pgrep -x ssh > /dev/null || break; sleep 0.05; done
! pgrep -x ssh
kill "$(cat sshd.pid)" $(jobs -p)
echo "all as it should be"
