#!/usr/bin/env bash
# What cluster.yaml and cluster.local.yaml do on each node. Every step may be run again.
#   environment     the locked environment on the PATH of every shell, the token for its owner alone
#   install         the versions of requirements.lock, with hashes, and Fair Trial itself
#   share           on the head: its folder of studies and archives, to the other nodes by NFS
#   mount HOST      on a worker: the same folder; HOST:/PATH mounts another server's
#   stage           the datasets whose archives lie in the shared folder, unpacked on this node's own disk
set -euo pipefail
code=~/fairtrial
shared=${FAIRTRIAL_SHARED:-/mnt/fairtrial}

environment() {
    [ -s ~/.ray/auth_token ] || { echo "There is no Ray token on this node; on the laptop: ray get-auth-token --generate, then ray up." >&2; exit 1; }
    chmod 700 ~/.ray
    chmod 600 ~/.ray/auth_token
    cat >~/.fairtrial.sh <<END
export PATH="$code/.venv/bin:\$PATH"
export RAY_AUTH_MODE=token RAY_JOB_STOP_WAIT_TIME_S=60 RAY_USAGE_STATS_ENABLED=0 MLFLOW_DISABLE_TELEMETRY=true
END
    # First, above the line with which ~/.bashrc ends for shells that are not interactive: bash reads it for commands by ssh, too.
    touch ~/.bashrc
    grep -qxF '. ~/.fairtrial.sh' ~/.bashrc && return
    { echo '. ~/.fairtrial.sh' && cat ~/.bashrc; } >~/.bashrc.new
    mv ~/.bashrc.new ~/.bashrc
}

install() {
    cmp -s $code/requirements.lock $code/.installed && return
    [ -x ~/.uv/bin/uv ] || { python3 -m venv ~/.uv && ~/.uv/bin/pip install --quiet uv; }
    ~/.uv/bin/uv venv --quiet --clear --python 3.11 $code/.venv
    export VIRTUAL_ENV=$code/.venv
    ~/.uv/bin/uv pip install --quiet --require-hashes -r $code/requirements.lock
    ~/.uv/bin/uv pip install --quiet --no-deps --editable $code
    cp $code/requirements.lock $code/.installed
}

share() {
    sudo mkdir -p "$shared/studies" "$shared/data"
    sudo chown "$(id -un)" "$shared" "$shared/studies" "$shared/data"
    command -v exportfs >/dev/null || sudo apt-get install -qq -y nfs-kernel-server >/dev/null
    sudo mkdir -p /etc/exports.d
    # The security group lets only nodes of this cluster reach it.
    echo "$shared *(rw,sync,no_subtree_check)" | sudo tee /etc/exports.d/fairtrial.exports >/dev/null
    sudo exportfs -ra
}

mount_shared() {
    mountpoint -q "$shared" && return
    command -v mount.nfs4 >/dev/null || sudo apt-get install -qq -y nfs-common >/dev/null
    sudo mkdir -p "$shared"
    case $1 in *:*) from=$1 ;; *) from=$1:$shared ;; esac
    sudo mount -t nfs4 -o hard,noatime "$from" "$shared"
}

stage() {
    done=${FAIRTRIAL_DATA:-$HOME/.cache/fairtrial}/staged
    for archive in "$shared"/data/*; do
        name=$(basename "$archive" | cut -d. -f1)
        [ -f "$archive" ] && [ ! -e "$done/$name" ] || continue
        (cd $code && python -m study data prepare "$name" --from "$archive")
        mkdir -p "$done"
        touch "$done/$name"
    done
}

case ${1:-} in
environment | install | share | stage) "$1" ;;
mount) mount_shared "${2:?the head, or HOST:/PATH}" ;;
*) sed -n '2,7p' "$0" >&2 && exit 2 ;;
esac
