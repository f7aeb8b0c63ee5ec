#include "serve/api/response_store.h"

#include <algorithm>

#include "base/quote.h"
#include "llm/session.h"
#include "serve/api/fields.h"

namespace makar {
namespace {

std::string key_of(const std::string& owner, const std::string& id) { return owner + '\n' + id; }

}  // namespace

void ResponseStore::drop(std::list<StoredResponse>::iterator entry) {
  bytes_ -= entry->bytes;
  by_key_.erase(entry->key);
  responses_.erase(entry);
}

void ResponseStore::add(const std::string& owner, const Json& response, Json input) {
  constexpr size_t kMemoryPerTextByte = 4;  // an estimate for parsed JSON
  const size_t bytes = kMemoryPerTextByte * (dump(response).size() + dump(input).size());
  StoredResponse entry{owner, key_of(owner, response["id"].get<std::string>()),
                       std::make_shared<const Json>(response), std::make_shared<const Json>(std::move(input)),
                       bytes};
  const std::lock_guard lock(mutex_);
  if (entry.bytes > max_bytes_ / owner_divisor(owner) || max_count_ == 0) return;
  make_room(owner, entry.bytes);
  bytes_ += entry.bytes;
  responses_.push_front(std::move(entry));
  by_key_[responses_.front().key] = responses_.begin();
}

void ResponseStore::make_room(const std::string& owner, size_t bytes) {
  size_t count = 0, own_bytes = 0;
  for (const StoredResponse& entry : responses_)
    if (entry.owner == owner) ++count, own_bytes += entry.bytes;
  const size_t divisor = owner_divisor(owner), max = std::max<size_t>(max_count_ / divisor, 1);
  for (auto it = responses_.end();
       it != responses_.begin() && (count >= max || own_bytes + bytes > max_bytes_ / divisor);) {
    const auto last = std::prev(it);
    if (last->owner == owner)
      --count, own_bytes -= last->bytes, drop(last);
    else
      it = last;
  }
  while (!responses_.empty() && (responses_.size() >= max_count_ || bytes_ + bytes > max_bytes_))
    drop(std::prev(responses_.end()));
}

Result<ResponseStore::StoredResponse*> ResponseStore::find(const std::string& owner, const std::string& id) {
  const auto it = by_key_.find(key_of(owner, id));
  if (it == by_key_.end())
    return error_of(Error::Kind::kNotFound, "response_id", "response {} not found", quote(id));
  responses_.splice(responses_.begin(), responses_, it->second);
  return &responses_.front();
}

Result<ResponseStore::Shared> ResponseStore::response(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const StoredResponse* entry, find(owner, id));
  return entry->response;
}

Result<ResponseStore::Shared> ResponseStore::input(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const StoredResponse* entry, find(owner, id));
  return entry->input;
}

Status ResponseStore::remove(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY([[maybe_unused]] const StoredResponse* entry, find(owner, id));
  drop(responses_.begin());
  return Done{};
}

Result<Json> ResponseStore::conversation(const std::string& owner, const std::string& id) {
  std::vector<Shared> items;  // from the last turn to the first
  size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    for (std::string next = id; !next.empty();) {
      const auto found = find(owner, next);
      if (!found.ok())
        return error_of(Error::Kind::kNotFound, "previous_response_id", "previous response {} not found{}",
                        quote(next), next == id ? std::string() : "; " + quote(id) + " continues it");
      const StoredResponse& entry = **found;
      items.push_back(entry.response), items.push_back(entry.input);
      count += entry.input->size() + (*entry.response)["output"].size();
      if (count > kMaxSessionMessages)
        return error_at("previous_response_id", "the conversation has more than {} items",
                        kMaxSessionMessages);
      const Json& previous = (*entry.response)["previous_response_id"];
      next = previous.is_string() ? previous.get<std::string>() : "";
    }
  }
  Json out = Json::array();
  for (size_t i = items.size(); i-- > 0;) {
    const bool is_input = i % 2 == 1;
    for (const Json& item : is_input ? *items[i] : (*items[i])["output"]) out.push_back(item);
  }
  return out;
}

size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return responses_.size();
}

}  // namespace makar
