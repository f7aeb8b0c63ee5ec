/* makar as a library for C and for languages that call C: load a model, tokenize, generate, embed, score.
 *
 * Functions that fail return NULL or a negative number; makar_last_error() then says why. No exception leaves the
 * library. A model may be used from several threads; calls on one model run one after the other. Texts are UTF-8.
 */
#ifndef MAKAR_H
#define MAKAR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(MAKAR_BUILD)
#define MAKAR_API __attribute__((visibility("default")))
#else
#define MAKAR_API
#endif

typedef struct makar_model makar_model;

/* The version of the library, such as "0.1.0". */
MAKAR_API const char *makar_version(void);

/* Why the last failing call of this thread failed; "" if none did. Valid until the next call of this thread. */
MAKAR_API const char *makar_last_error(void);

/* Opens a Hugging Face folder or a GGUF file. threads: 0 for one per core. NULL on failure. */
MAKAR_API makar_model *makar_open(const char *path, int threads);
MAKAR_API void makar_close(makar_model *model); /* NULL is allowed */

/* Frees a text that a function returned. */
MAKAR_API void makar_free(char *text);

/* Stores up to `capacity` token ids in `ids` and returns how many the text has; call with capacity 0 to count them. */
MAKAR_API int64_t makar_tokenize(makar_model *model, const char *text, int64_t *ids, int64_t capacity);
/* The text of token ids; free it with makar_free. */
MAKAR_API char *makar_detokenize(makar_model *model, const int64_t *ids, int64_t count);

/* Called with each piece of generated text; a result other than 0 stops the generation. */
typedef int (*makar_on_text)(const char *piece, void *data);

/* Continues a prompt and returns the text; free it with makar_free. `options` is NULL or a JSON object:
 *   {"max_tokens": 256, "chat": false, "stop": ["\n"], "temperature": 0, "top_k": 0, "top_p": 1, "seed": 0, ...}
 * with the sampling keys of makar serve. "chat": the prompt is a message, put through the model's chat template. */
MAKAR_API char *makar_generate(makar_model *model, const char *prompt, const char *options, makar_on_text on_text,
                               void *data);

/* Stores up to `capacity` numbers of the embedding of a text in `vector` and returns its width. */
MAKAR_API int64_t makar_embed(makar_model *model, const char *text, float *vector, int64_t capacity);

/* The log-probability of `continuation` after `context` (of the whole text if the context is ""), and whether each of
 * its tokens was the most probable one; either pointer may be NULL. Returns the number of scored tokens. */
MAKAR_API int64_t makar_loglikelihood(makar_model *model, const char *context, const char *continuation,
                                      double *logprob, int *is_greedy);

#ifdef __cplusplus
}
#endif

#endif
