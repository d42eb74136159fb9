#!/usr/bin/env bash
# Files of one text a line, from data sets as they come.
#
#     experiments/texts.sh DATA
#
# No task that is measured has its dev or test rows in them. WikiText-2's
# validation text is in running.txt, since its training text is not at hand.
set -euo pipefail
data=$1
out=runs/data
mkdir -p $out/glue_1000/SST-2

# into FILE: what comes in, whole or not at all, since scripts run side by side.
into() {
    local whole
    whole=$(mktemp "$out/$1.XXXXXX")
    cat > "$whole"
    mv "$whole" "$out/$1"
}

# IMDB's unlabelled reviews and SST-2's training phrases.
tail -n +2 "$data"/imdb_unlabeled/*.tsv | cut -f2 | sed 's/<br \/>/ /g' \
    | into reviews.txt
tail -n +2 "$data/glue/SST-2/train.tsv" | cut -f1 | into phrases.txt
# None of these reviews is in the texts below.
sed -n 3001,3100p $out/reviews.txt | into held_out.txt
# About a million word pieces: what two cores learn from in an hour.
{ head -n 40000 $out/phrases.txt; head -n 1500 $out/reviews.txt; } \
    | into general.txt
# About a million tokens of running text for decoders.
{
    head -n 2500 $out/reviews.txt
    sed 's/ @\([-,.]\)@ /\1/g' "$data/wikitext2/wiki.valid.raw"
} | into running.txt
# Every 67th row of SST-2: 1,000 of them, and dev as it is.
awk 'NR == 1 || NR % 67 == 2' "$data/glue/SST-2/train.tsv" | head -n 1001 \
    | into glue_1000/SST-2/train.tsv
into glue_1000/SST-2/dev.tsv < "$data/glue/SST-2/dev.tsv"
