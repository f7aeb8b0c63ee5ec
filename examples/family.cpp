// A custom family: a page that reads its config.json and names its tensors, added to the table of
// families. It is a Llama with LayerNorm. Creates a model with random weights, saves it, and loads it again.
// usage: family FOLDER
#include <cstdio>

#include "base/file.h"
#include "models/add_family.h"
#include "models/families/pages.h"
#include "models/load.h"

using namespace makar;

Result<ModelSpec> read_mine(const Config& config) {
  Reader r(config);
  ModelSpec m = read_llama_like(r, "mine", "Mine", LlamaDefaults());
  m.decoder->norm = {.kind = NormSpec::Kind::kLayer, .eps = 1e-5};
  r.special_tokens(m, -1, -1, -1);
  return r.finish(m);
}

const Family kMine = {
    .type = "mine", .prefix = "model.", .read = read_mine, .names = llama_names, .ignored = llama_ignored()};

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: family FOLDER\n"), 2;
  add_family(kMine);
  const auto config = Config::parse(
      R"({"architectures": ["MineForCausalLM"], "model_type": "mine", "vocab_size": 100, "hidden_size": 32,
          "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2,
          "max_position_embeddings": 64})",
      "config");
  auto created = make_model(*config);
  if (!created.ok()) return std::fprintf(stderr, "%s\n", created.error().text().c_str()), 1;
  initialize(*created->model, 1);
  if (const Status s = save_model(argv[1], *created->model, *created->family); !s.ok())
    return std::fprintf(stderr, "%s\n", s.error().text().c_str()), 1;
  const auto loaded = load_model(argv[1]);
  if (!loaded.ok()) return std::fprintf(stderr, "%s\n", loaded.error().text().c_str()), 1;
  std::printf("%s with %ld parameters\n", loaded->model->spec().architecture.c_str(),
              static_cast<long>(loaded->model->parameters().count()));
}
