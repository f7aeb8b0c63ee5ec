// Describes a model from its config.json and the headers of its weight files: structure, sizes, costs. No
// weights are read.
#pragma once
#include <string>
#include <vector>

#include "models/load.h"
#include "models/structure.h"

namespace makar {

struct Precision {
  std::string name;         // "q8_0"
  double bytes_per_weight;  // 34 / 32: a block of 32 with its scale
  double bytes;             // of all weights
};

// Work for one token, in floating point operations; a multiply-add is two.
struct TokenCost {
  std::string stack;     // "decoder", "encoder"
  double products = 0;   // 2 per weight of the matrices that the token is multiplied with
  double attention = 0;  // scores and weighted sums over `context` tokens (fewer in layers with a window)
  double total() const { return products + attention; }
};

struct Inspection {
  std::string folder;
  ModelSpec spec;
  std::string warning;  // why there are no weights; empty when there are some
  std::string place;    // of the weights
  int64_t files_bytes = 0;
  std::vector<std::pair<std::string, int64_t>> dtypes;  // of the files: number of values per type

  int64_t parameters = 0;
  int64_t active = 0;     // parameters used per token: without the experts that are not selected
  int64_t embedding = 0;  // embedding tables: tokens, positions, types
  std::vector<Precision> memory;
  int64_t cache_values = 0;        // keys and values per generated token
  int64_t cross_cache_values = 0;  // keys and values per encoder token
  int64_t context = 0;             // the context length for `costs`
  std::vector<TokenCost> costs;
  StructureNode structure;
};

struct InspectOptions {
  int64_t context = 0;  // 0: the model's maximum, or 1024 when it has none
};

// Missing weights give a warning; broken weights are an error.
Result<Inspection> inspect_model(const std::string& folder, const InspectOptions& options = {});

Json to_json(const Inspection& inspection);

}  // namespace makar
