// A custom rule in the sampling chain: no token is generated twice in a row.
// usage: sampler MODEL PROMPT
#include <cmath>
#include <cstdio>

#include "kernels/cpu_device.h"
#include "llm/text_generation.h"

using namespace makar;

// Called with the logits before each token, and with each token that was chosen.
class NoRepeat : public Constraint {
 public:
  Status mask(std::span<float> logits) override {
    if (last_ >= 0) logits[static_cast<size_t>(last_)] = -INFINITY;
    return Done{};
  }
  Status accept(int64_t token) override { return last_ = token, Done{}; }
  std::unique_ptr<Constraint> fork() const override { return std::make_unique<NoRepeat>(*this); }

 private:
  int64_t last_ = -1;
};

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: sampler MODEL PROMPT\n"), 2;
  CpuDevice device;
  auto language = LanguageModel::open(argv[1], device);
  if (!language.ok()) return std::fprintf(stderr, "%s\n", language.error().text().c_str()), 1;
  Engine engine(language->model(), device);
  TextGenerationOptions options;
  options.max_new_tokens = 20;
  options.constraint = std::make_shared<NoRepeat>();
  const auto prompt = language->encode(argv[2]);
  if (!prompt.ok()) return std::fprintf(stderr, "%s\n", prompt.error().text().c_str()), 1;
  const auto answer = generate_text(engine, *language, *prompt, options);
  if (!answer.ok()) return std::fprintf(stderr, "%s\n", answer.error().text().c_str()), 1;
  for (const GeneratedToken& token : answer->answers[0].tokens)
    std::printf("%ld ", static_cast<long>(token.id));
  std::puts("");
}
