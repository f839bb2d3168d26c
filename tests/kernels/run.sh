#!/usr/bin/env bash
# Runs a command, by default the conformance scenarios of the netlink data plane, on another Linux kernel: in a virtual
# machine that has this machine's file system under a layer of its own, so nothing that happens there remains.
#   tests/kernels/run.sh --kernel DIRECTORY [--cpus N] [--memory SIZE] [--seconds N] [COMMAND...]
# DIRECTORY holds an unpacked kernel package with boot/vmlinuz-VERSION and lib/modules/VERSION, with the modules 9p,
# virtio_pci and overlay. On Debian (linux-image-cloud-amd64 will not do, it has no 9p):
#   apt-get install qemu-system-x86 busybox-static kmod
#   apt-get download linux-image-6.1.0-57-amd64 && dpkg-deb -x linux-image-*.deb DIRECTORY
# Exit status: that of the command; 77 if something that is needed is missing, 124 if it took longer than --seconds.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
kernel='' cpus=2 memory=3G seconds=1500
while [ $# -gt 0 ]; do
    case $1 in
        --kernel) kernel=$(cd "$2" && pwd) ;;
        --cpus) cpus=$2 ;;
        --memory) memory=$2 ;;
        --seconds) seconds=$2 ;;
        *) break ;;
    esac
    shift 2
done
[ $# -gt 0 ] || set -- python -m pytest -p no:cacheprovider -o timeout=1200 -q tests/conformance -k netlink-netlink

lacking() { printf 'tests/kernels/run.sh: %s\n' "$*" >&2; exit 77; }
for program in qemu-system-x86_64 busybox depmod; do
    [ -n "$(command -v $program)" ] || lacking "$program is not installed"
done
[ -n "$kernel" ] || lacking "no --kernel DIRECTORY is given"
image=$(find "$kernel/boot" -name 'vmlinuz-*' 2>/dev/null | head -n 1)
[ -n "$image" ] || lacking "there is no boot/vmlinuz-* in $kernel"
version=${image##*/vmlinuz-}
python=$(readlink -f "$root/.venv/bin" 2>/dev/null || true)
[ -d "$python" ] || python=$(dirname "$(command -v python)")

# Without the processor's own virtualisation the machine is emulated: everything takes some ten times as long.
speed=(-cpu max) patience=16
if [ -w /dev/kvm ] && grep -Eqm1 '^flags.* (vmx|svm)' /proc/cpuinfo; then speed=(-enable-kvm -cpu host) patience=1; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/init/bin" "$work/init/lib" "$work/modules/lib/modules" "$work/out"
modules=$kernel/lib/modules/$version
if [ ! -f "$modules/modules.dep" ]; then
    depmod -b "$kernel" "$version"
fi

# The first programs of the machine: enough to find the file system.
cp "$(command -v busybox)" "$work/init/bin/busybox"
while read -r file; do
    mkdir -p "$work/init/$(dirname "$file")"
    cp "$kernel/$file" "$work/init/$file"
done < <(for module in virtio_pci 9p 9pnet_virtio overlay; do
    found=$(modprobe -d "$kernel" -S "$version" --show-depends "$module") || lacking "$version has no module $module"
    sed -n "s|^insmod \(.*/\)\?\(lib/modules/.*\.ko\).*|\2|p" <<<"$found"
done | sort -u)
cp "$modules"/modules.{dep,alias,builtin,softdep,order} "$work/init/lib/modules/$version/" 2>/dev/null || true

cat >"$work/init/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /lower /layer /new /usr/bin /sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
for module in virtio_pci 9pnet_virtio 9p overlay; do modprobe $module; done
shared=trans=virtio,version=9p2000.L,msize=524288
mount -t 9p -o ro,cache=loose,$shared root /lower
mount -t tmpfs layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work root /new
mkdir -p /new/mnt/out /new/mnt/kernel /new/lib/modules
mount -t 9p -o $shared out /new/mnt/out
mount -t 9p -o ro,cache=loose,$shared kernel /new/mnt/kernel
mount --bind /new/mnt/kernel/lib/modules /new/lib/modules
mount -t proc proc /new/proc
mount -t sysfs sys /new/sys
mount -t devtmpfs dev /new/dev
mkdir -p /new/dev/pts /new/dev/shm
mount -t devpts pts /new/dev/pts
for place in /dev/shm /run /tmp; do mount -t tmpfs tmp /new$place; done
mount -t tmpfs -o size=1G tmp /new/var/tmp
# Not chroot: the kernel itself is to find its modules there.
exec switch_root /new /bin/bash /mnt/out/command
INIT
chmod +x "$work/init/init"
(cd "$work/init" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs"

{
    printf 'export PATH=%q:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8\n' "$python"
    printf 'export PYTHONPATH=%q PYTHONDONTWRITEBYTECODE=1 ACA_LONG=%q\n' "$root" "${ACA_LONG:-}"
    printf 'export ACA_LAB_PATIENCE=%q ACA_CONFORMANCE_NETWORK_TYPE=%q\n' \
        "$patience" "${ACA_CONFORMANCE_NETWORK_TYPE:-VXLAN}"
    printf 'ip link set lo up; modprobe tun; cd %q\n' "$root"
    printf '%q ' "$@"
    printf '</dev/null\necho $? >/mnt/out/status\nsync; busybox poweroff -f\n'
} >"$work/out/command"

status=0
timeout --foreground "$seconds" qemu-system-x86_64 "${speed[@]}" -smp "$cpus" -m "$memory" -no-reboot \
    -display none -monitor none -serial stdio -nodefaults \
    -kernel "$image" -initrd "$work/initramfs" -append "console=ttyS0 quiet panic=-1" \
    -virtfs "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap" \
    -virtfs "local,path=$kernel,mount_tag=kernel,security_model=none,readonly=on" \
    -virtfs "local,path=$work/out,mount_tag=out,security_model=none" </dev/null || status=$?
[ "$status" -eq 0 ] || exit "$status"
exit "$(cat "$work/out/status" 2>/dev/null || echo 1)"
