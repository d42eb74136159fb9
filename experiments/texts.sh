#!/usr/bin/env bash
# Files of one text a line, from data sets as they come.
#
#     experiments/texts.sh DATA
#
# None of them has a row of a dev or test set.
set -euo pipefail
data=$1
out=runs/data
mkdir -p $out

# IMDB's unlabelled reviews and SST-2's training phrases.
tail -n +2 "$data"/imdb_unlabeled/*.tsv | cut -f2 | sed 's/<br \/>/ /g' \
    > $out/reviews.txt
tail -n +2 "$data/glue/SST-2/train.tsv" | cut -f1 > $out/phrases.txt
# About a million word pieces: what two cores learn from in an hour.
{ head -n 40000 $out/phrases.txt; head -n 1500 $out/reviews.txt; } \
    > $out/general.txt
# About a million tokens of running text for decoders.
{ head -n 2500 $out/reviews.txt; cat "$data/wikitext2/wiki.valid.raw"; } \
    > $out/running.txt
# Every 67th row of SST-2: 1,000 of them, and dev as it is.
mkdir -p $out/glue_1000/SST-2
awk 'NR == 1 || NR % 67 == 2' "$data/glue/SST-2/train.tsv" | head -n 1001 \
    > $out/glue_1000/SST-2/train.tsv
cp "$data/glue/SST-2/dev.tsv" $out/glue_1000/SST-2/
