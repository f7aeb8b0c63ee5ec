// Loads a model and continues a prompt.   usage: generate MODEL PROMPT
#include <cstdio>

#include "kernels/cpu_device.h"
#include "llm/text_generation.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: generate MODEL PROMPT\n"), 2;
  makar::CpuDevice device;
  auto language = makar::LanguageModel::open(argv[1], device);
  if (!language.ok()) return std::fprintf(stderr, "%s\n", language.error().text().c_str()), 1;
  makar::Engine engine(language->model(), device);
  makar::TextGenerationOptions options;
  options.max_new_tokens = 40;
  options.on_text = [](int64_t, const std::string& text) { return std::fputs(text.c_str(), stdout) >= 0; };
  const auto prompt = language->encode(argv[2]);
  if (!prompt.ok()) return std::fprintf(stderr, "%s\n", prompt.error().text().c_str()), 1;
  const auto answer = makar::generate_text(engine, *language, *prompt, options);
  if (!answer.ok()) return std::fprintf(stderr, "%s\n", answer.error().text().c_str()), 1;
  std::puts("");
}
