#!/usr/bin/env bash
# Fetches the broker that tests and the demonstration start, by Maven, into build/kafka: its jars, and the first
# metadata of a cluster, which is what formatting a broker's directory comes to. Run again at will: what is there is
# not fetched again. Needs Java 17 or later and Maven; bounded to 20 minutes.
#   tests/kafka/fetch.sh
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath -m "$here/../../build")
target=$build/kafka
stamp=$(cat "$here/pom.xml" "${BASH_SOURCE[0]}" | sha256sum | cut -d' ' -f1)

if [ "$(cat "$target/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi
mkdir -p "$build"
exec 8<"${BASH_SOURCE[0]}"
flock -w 900 8
if [ "$(cat "$target/stamp" 2>/dev/null)" = "$stamp" ]; then exit 0; fi

printf 'kafka: fetching the broker for tests\n' >&2
made=$(mktemp -d "$build/kafka.XXXXXX")
trap 'rm -rf "$made"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fetch() {
    timeout --foreground 300 mvn --quiet --batch-mode --no-transfer-progress --file "$here/pom.xml" \
        dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$made/jars" \
        </dev/null >"$made/maven.log" 2>&1
}
for pause in 5 20 stop; do
    if fetch; then break; fi
    if [ "$pause" = stop ]; then
        printf 'kafka: the jars could not be fetched\n' >&2
        cat "$made/maven.log" >&2
        exit 1
    fi
    sleep "$pause"
done

cat >"$made/format.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:1
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://localhost:2,CONTROLLER://localhost:1
log.dirs=$made/formatted
PROPERTIES
timeout --foreground 60 java -cp "$made/jars/*" -Dorg.slf4j.simpleLogger.defaultLogLevel=error \
    kafka.tools.StorageTool format --cluster-id AAAAAAAAAAAAAAAAAAAAAA --config "$made/format.properties" >/dev/null
mv "$made/formatted/bootstrap.checkpoint" "$made/"
rm -r "$made/formatted" "$made/format.properties" "$made/maven.log"
printf '%s\n' "$stamp" >"$made/stamp"
rm -rf "$target"
mv "$made" "$target"
