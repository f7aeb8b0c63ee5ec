// Building blocks of tokenizer.json values that several readers share.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace makar {

Json empty_tokenizer();  // version 1.0 and null sections
Json added_token(uint32_t id, std::string_view content, bool special);
// A TemplateProcessing section: the tokens, with their ids, before and after each text.
Json template_processor(const std::vector<std::pair<std::string, uint32_t>>& before,
                        const std::vector<std::pair<std::string, uint32_t>>& after);
Json byte_level_stage(bool prefix_space, bool use_regex);
Json split_stage(const std::string& pattern);
Json sequence_stage(const char* key, Json parts);
// A plain BPE model: no unknown token, no byte fallback.
Json bpe_model(Json vocab, Json merges, bool ignore_merges);
// Appends {"token": id} without searching for the key.
void put_token(Json& vocab, std::string token, uint32_t id);

// A merge list for tokens ranked by score: every split of a piece into two others, the best pieces first.
// `order`: ids from the best score to the worst. `usable`: by id, whether merges may use the piece.
Json merges_by_score(const std::vector<std::string>& pieces, const std::vector<uint32_t>& order,
                     const std::vector<bool>& usable);

}  // namespace makar
