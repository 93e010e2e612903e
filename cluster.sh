#!/usr/bin/env bash
# What cluster.yaml and cluster.local.yaml do on each node. Every step may be run again.
#   environment     the locked environment on the PATH of every shell, the token for its owner alone
#   install         the versions of requirements.lock, with hashes, and Fair Trial itself
#   image           on the head in AWS: workers start from the image that the head itself was started from
#   share WHOM...   on the head: its folder of studies and archives by NFS, to these addresses or networks alone
#   mount HOST      on a worker: the same folder; HOST:/PATH mounts another server's
#   stage           the datasets whose archives lie in the shared folder, unpacked on this node's own disk
set -euo pipefail
code=~/fairtrial
shared=${FAIRTRIAL_SHARED:-/mnt/fairtrial}

packages() { # A machine that has just booted updates itself and holds the lock for minutes.
    local apt="sudo DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600"
    $apt update && $apt install -y "$@" >/dev/null
}

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
    cat $code/requirements.lock $code/pyproject.toml | cmp -s - $code/.installed && return
    if [ ! -x ~/.uv/bin/uv ]; then
        python3 -c 'import ensurepip' 2>/dev/null || packages python3-venv
        python3 -m venv ~/.uv
        ~/.uv/bin/pip install --quiet uv==0.13.7
    fi
    ~/.uv/bin/uv venv --quiet --clear --python 3.11 $code/.venv
    export VIRTUAL_ENV=$code/.venv
    ~/.uv/bin/uv pip install --quiet --require-hashes -r $code/requirements.lock
    ~/.uv/bin/uv pip install --quiet --no-deps --editable $code
    cat $code/requirements.lock $code/pyproject.toml >$code/.installed
}

image() { # The head's role may start instances, but may not read what resolve:ssm names; the head was started from what it named.
    local address=http://169.254.169.254/latest token own
    token=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' $address/api/token)
    own=$(curl -sf -H "X-aws-ec2-metadata-token: $token" $address/meta-data/ami-id)
    [[ $own == ami-* ]] || { echo "AWS does not say which image this head has; write it as ImageId in cluster.yaml." >&2; exit 1; }
    sed -i "s|resolve:ssm:[^\"' ,}]*|$own|g" ~/ray_bootstrap_config.yaml
}

share() {
    sudo mkdir -p "$shared/studies" "$shared/data"
    sudo chown "$(id -un)" "$shared" "$shared/studies" "$shared/data"
    command -v exportfs >/dev/null || packages nfs-kernel-server
    sudo mkdir -p /etc/exports.d
    echo "$shared" "${@/%/(rw,sync,no_subtree_check)}" | sudo tee /etc/exports.d/fairtrial.exports >/dev/null
    sudo exportfs -ra
}

mount_shared() {
    mountpoint -q "$shared" && return
    command -v mount.nfs4 >/dev/null || packages nfs-common
    sudo mkdir -p "$shared"
    case $1 in *:*) from=$1 ;; *) from=$1:$shared ;; esac
    sudo mount -t nfs4 -o hard,noatime "$from" "$shared"
}

stage() {
    done=${FAIRTRIAL_DATA:-$HOME/.cache/fairtrial}/staged
    for archive in "$shared"/data/*; do
        name=$(basename "$archive" | cut -d. -f1)
        [ -f "$archive" ] && [ ! -e "$done/$name" ] || continue
        if (cd $code && python -m study data prepare "$name" --from "$archive"); then
            mkdir -p "$done"
            touch "$done/$name"
        else # a node without these images is better than no node
            echo "cluster.sh: $archive was passed over." >&2
        fi
    done
}

case ${1:-} in
environment | install | image | stage) "$1" ;;
share) share "${2:?an address or a network}" "${@:3}" ;;
mount) mount_shared "${2:?the head, or HOST:/PATH}" ;;
*) sed -n '2,8p' "$0" >&2 && exit 2 ;;
esac
