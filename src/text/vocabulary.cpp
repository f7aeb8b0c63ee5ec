#include "text/vocabulary.h"

#include <algorithm>

#include "base/quote.h"
#include "text/hash.h"

namespace makar {

void Vocabulary::grow() {
  std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (!slot.entry) continue;
    size_t at = slot.hash & mask;
    while (slots_[at].entry) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

size_t Vocabulary::slot_of(std::string_view token, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto low = static_cast<uint32_t>(hash);
  size_t at = low & mask;
  while (slots_[at].entry && !(slots_[at].hash == low && view(entries_[slots_[at].entry - 1]) == token))
    at = (at + 1) & mask;
  return at;
}

void Vocabulary::add(std::string_view token, uint32_t id) {
  check(id <= kMaxId, "token id above Vocabulary::kMaxId");
  if (entries_.size() * 2 >= slots_.size()) grow();
  const uint64_t hash = hash_bytes(token);
  Slot& slot = slots_[slot_of(token, hash)];
  if (!slot.entry) {
    entries_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(token.size()), id});
    bytes_ += token;
    slot = {static_cast<uint32_t>(entries_.size()), static_cast<uint32_t>(hash)};
  }
  entries_[slot.entry - 1].id = id;
  if (id >= by_id_.size()) by_id_.resize(id + 1);
  by_id_[id] = slot.entry;
}

uint32_t Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return kNoId;
  const Slot& slot = slots_[slot_of(token, hash_bytes(token))];
  return slot.entry ? entries_[slot.entry - 1].id : kNoId;
}

void Vocabulary::find_all(std::span<const std::string_view> tokens, uint32_t* ids) const {
  constexpr size_t kBatch = 48;
  const size_t mask = slots_.size() - 1;
  for (size_t first = 0; first < tokens.size(); first += kBatch) {
    const size_t count = slots_.empty() ? 0 : std::min(kBatch, tokens.size() - first);
    uint64_t hashes[kBatch];
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = hash_bytes(tokens[first + i]);
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    const auto probed_entry = [&](size_t i) { return slots_[hashes[i] & mask].entry; };
    for (size_t i = 0; i < count; ++i)
      if (probed_entry(i)) __builtin_prefetch(&entries_[probed_entry(i) - 1]);
    for (size_t i = 0; i < count; ++i)
      if (probed_entry(i)) __builtin_prefetch(bytes_.data() + entries_[probed_entry(i) - 1].begin);
    for (size_t i = 0; i < count; ++i) {
      const Slot& slot = slots_[slot_of(tokens[first + i], hashes[i])];
      ids[first + i] = slot.entry ? entries_[slot.entry - 1].id : kNoId;
    }
  }
  if (slots_.empty()) std::fill(ids, ids + tokens.size(), kNoId);
}

std::optional<std::string_view> Vocabulary::token(uint32_t id) const {
  if (id >= by_id_.size() || !by_id_[id]) return std::nullopt;
  return view(entries_[by_id_[id] - 1]);
}

Result<Vocabulary> Vocabulary::from_json(const Json& json) {
  if (!json.is_object())
    return error_at("vocab", "expected an object that maps tokens to ids, found {}", json.type_name());
  Vocabulary vocabulary;
  for (const auto& [token, id] : json.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<uint64_t>() > kMaxId)
      return error_at("vocab", "the id of {} must be an integer from 0 to {}, found {}", quote(token), kMaxId,
                      id.dump().substr(0, 40));
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
