// What a model folder holds, from its config.json and the headers of its weight files: structure, sizes,
// costs. No weight is read.
#pragma once
#include <string>
#include <vector>

#include "models/load.h"
#include "models/structure.h"

namespace makar {

struct Precision {
  std::string name;       // "q8_0"
  double bytes_a_weight;  // 34 / 32: a block of 32 with its scale
  double bytes;           // of all weights
};

// Work for one token, in floating point operations; a multiply-add is two.
struct TokenCost {
  std::string stack;     // "decoder", "encoder"
  double products = 0;   // 2 for each weight of a matrix that the token meets
  double attention = 0;  // scores and mixing, with `context` tokens in sight (fewer in layers with a window)
  double total() const { return products + attention; }
};

struct Inspection {
  std::string folder;
  ModelSpec spec;
  std::string warning;  // why there are no weights; empty when there are
  std::string place;    // of the weights
  int64_t files_bytes = 0;
  std::vector<std::pair<std::string, int64_t>> dtypes;  // of the files: values of each type

  int64_t parameters = 0;
  int64_t active = 0;     // without the experts a token does not meet
  int64_t embedding = 0;  // tables that are looked up: tokens, positions, types
  std::vector<Precision> memory;
  int64_t cache_values = 0;        // keys and values of one written token
  int64_t cross_cache_values = 0;  // of one token read by the encoder
  int64_t context = 0;             // that `costs` is given for
  std::vector<TokenCost> costs;
  StructureNode structure;
};

struct InspectOptions {
  int64_t context = 0;  // 0: the model's longest, or 1024 when it names none
};

// Missing weights leave a warning; broken ones are an error.
Result<Inspection> inspect_model(const std::string& folder, const InspectOptions& options = {});

Json to_json(const Inspection& inspection);

}  // namespace makar
