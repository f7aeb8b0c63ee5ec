# Tokenizers and their trainers against the peers of npm and Debian, in one run.
#   ./dev bench tokenize [--json] [--rounds N] [--threads 1,2] [--texts english,code,mixed] [--cases gpt2,...,repeat,train]
# builds: makar bench_tokenizer_makar bench_tokenizer_sentencepiece
exec /usr/bin/python3 bench/tokenizer/compare.py "$@"
