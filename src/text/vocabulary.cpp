#include "text/vocabulary.h"

#include "base/shown.h"
#include "text/hash.h"

namespace makar {

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, 0);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t at = hash_bytes(view(entries_[i])) & mask;
    while (slots_[at]) at = (at + 1) & mask;
    slots_[at] = static_cast<uint32_t>(i + 1);
  }
}

void Vocabulary::add(std::string_view token, uint32_t id) {
  check(id <= kMaxId, "token id above Vocabulary::kMaxId");
  if (entries_.size() * 2 >= slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  size_t at = hash_bytes(token) & mask;
  while (slots_[at] && view(entries_[slots_[at] - 1]) != token) at = (at + 1) & mask;
  if (!slots_[at]) {
    entries_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), id});
    bytes_ += token;
    slots_[at] = static_cast<uint32_t>(entries_.size());
  }
  entries_[slots_[at] - 1].id = id;
  if (id >= by_id_.size()) by_id_.resize(id + 1);
  by_id_[id] = slots_[at];
}

uint32_t Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return kNoId;
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash_bytes(token) & mask; slots_[at]; at = (at + 1) & mask) {
    const Entry& entry = entries_[slots_[at] - 1];
    if (view(entry) == token) return entry.id;
  }
  return kNoId;
}

std::optional<std::string_view> Vocabulary::token(uint32_t id) const {
  if (id >= by_id_.size() || !by_id_[id]) return std::nullopt;
  return view(entries_[by_id_[id] - 1]);
}

Result<Vocabulary> Vocabulary::from_json(const Json& json) {
  if (!json.is_object())
    return error_at("vocab", "expected an object of tokens and ids, found {}", json.type_name());
  Vocabulary vocabulary;
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<uint64_t>() > kMaxId)
      return error_at("vocab", "the id of {} must be a whole number from 0 to {}, found {}", shown(token),
                      kMaxId, id.dump().substr(0, 40));
    vocabulary.add(token, id.get<uint32_t>());
  }
  return vocabulary;
}

Json Vocabulary::to_json() const {
  Json json = Json::object();
  auto& fields = static_cast<std::vector<Json::object_t::value_type>&>(json.get_ref<Json::object_t&>());
  fields.reserve(by_id_.size());
  for (uint32_t id = 0; id < by_id_.size(); ++id)
    if (by_id_[id]) fields.emplace_back(std::string(view(entries_[by_id_[id] - 1])), Json(id));
  return json;
}

}  // namespace makar
