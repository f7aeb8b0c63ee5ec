// Trains a byte-level model on a text file and saves it as a Hugging Face folder.
// usage: train TEXT FOLDER STEPS
#include <cstdio>
#include <cstdlib>

#include "base/file.h"
#include "base/rng.h"
#include "kernels/cpu_device.h"
#include "models/load.h"
#include "train/step.h"

using namespace makar;

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: train TEXT FOLDER STEPS\n"), 2;
  const auto text = read_file(argv[1]);
  if (!text.ok() || text->size() < 100)
    return std::fprintf(stderr, "%s: expected a text of 100 bytes or more\n", argv[1]), 1;
  const auto config = Config::parse(
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256, "hidden_size": 64,
          "intermediate_size": 176, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true})",
      "config");
  auto created = make_model(*config);
  if (!created.ok()) return std::fprintf(stderr, "%s\n", created.error().text().c_str()), 1;
  Model& model = *created->model;
  initialize(model, 1);
  auto optimizer = Optimizer::make(model.parameters(), {});
  CpuDevice device;
  for (int step = 0; step < std::atoi(argv[3]); ++step) {
    Batch batch;
    std::vector<int64_t> targets;
    const Rng rng(7, Purpose::kShuffle, static_cast<uint64_t>(step));
    for (uint64_t s = 0; s < 8; ++s) {  // eight random positions in the text
      const auto at = static_cast<size_t>(rng.uniform_double(s) * static_cast<double>(text->size() - 65));
      std::vector<int64_t> bytes;
      for (size_t i = 0; i < 64; ++i) bytes.push_back(static_cast<unsigned char>((*text)[at + i]));
      for (size_t i = 0; i < 64; ++i) targets.push_back(static_cast<unsigned char>((*text)[at + i + 1]));
      batch.add(bytes);
    }
    const StepResult r = train_step(model, *optimizer, device, batch, targets, {.lr = 3e-3});
    if (step % 10 == 0) std::printf("step %d loss %.3f\n", step, r.loss);
  }
  const Status saved = save_model(argv[2], model, *created->family);
  return saved.ok() ? 0 : (std::fprintf(stderr, "%s\n", saved.error().text().c_str()), 1);
}
