// The settings of a collection as JSON.
#include "retrieval/store.h"

namespace makar {

Json CollectionSettings::to_json() const {
  return {{"language", analyzer.language},
          {"stem", analyzer.stem},
          {"stop_words", analyzer.stop},
          {"chunk", makar::name(chunk.kind)},
          {"chunk_size", chunk.size},
          {"chunk_overlap", chunk.overlap},
          {"tokenizer", tokenizer},
          {"model", model},
          {"query_model", query_model},
          {"query_prefix", query_prefix},
          {"passage_prefix", passage_prefix},
          {"vector", makar::name(vector)},
          {"similarity", makar::name(similarity)},
          {"hnsw", hnsw}};
}

Result<CollectionSettings> CollectionSettings::from_json(const Json& json, const std::string& place) {
  CollectionSettings out;
  const Json defaults = out.to_json();
  for (const auto& [key, value] : defaults.items()) {
    const bool found = json.is_object() && json.contains(key);
    const bool same_type = found && (json[key].type() == value.type() ||
                                     (json[key].is_number_integer() && value.is_number_integer()));
    if (!same_type)
      return error_at(place, "the setting '{}' is missing or damaged; build the index again", key);
  }
  out.analyzer = {json["language"].get<std::string>(), json["stem"].get<bool>(),
                  json["stop_words"].get<bool>()};
  MAKAR_TRY(out.chunk.kind, parse_chunk_kind(json["chunk"].get<std::string>(), place));
  out.chunk.size = json["chunk_size"].get<int64_t>();
  out.chunk.overlap = json["chunk_overlap"].get<int64_t>();
  MAKAR_RETURN_IF_ERROR(check_chunk_options(out.chunk));
  out.tokenizer = json["tokenizer"].get<std::string>();
  out.model = json["model"].get<std::string>();
  out.query_model = json["query_model"].get<std::string>();
  out.query_prefix = json["query_prefix"].get<std::string>();
  out.passage_prefix = json["passage_prefix"].get<std::string>();
  MAKAR_TRY(out.vector, parse_vector_type(json["vector"].get<std::string>(), place));
  MAKAR_TRY(out.similarity, parse_similarity(json["similarity"].get<std::string>(), place));
  out.hnsw = json["hnsw"].get<bool>();
  return out;
}

std::string CollectionSettings::difference(const CollectionSettings& other) const {
  const Json settings = to_json(), others = other.to_json();
  for (const auto& [key, value] : settings.items())
    if (others[key] != value) return key;
  return "";
}

}  // namespace makar
