/* The C API: loads a model, tokenizes, generates with a callback, scores.   usage: generate_c MODEL PROMPT */
#include <makar.h>
#include <stdio.h>

static int print_piece(const char *piece, void *data) {
  (void)data;
  return fputs(piece, stdout) < 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: generate_c MODEL PROMPT\n"), 2;
  makar_model *model = makar_open(argv[1], 1);
  if (!model) return fprintf(stderr, "%s\n", makar_last_error()), 1;
  printf("%lld tokens: ", (long long)makar_tokenize(model, argv[2], NULL, 0));
  char *text = makar_generate(model, argv[2], "{\"max_tokens\": 20}", print_piece, NULL);
  if (!text) return fprintf(stderr, "%s\n", makar_last_error()), makar_close(model), 1;
  double logprob = 0;
  if (makar_loglikelihood(model, argv[2], text, &logprob, NULL) >= 0) printf("\nlog-probability %.3f\n", logprob);
  makar_free(text);
  makar_close(model);
  return 0;
}
