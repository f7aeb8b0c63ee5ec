#include "serve/api/response_store.h"

#include <algorithm>

#include "base/quote.h"
#include "llm/session.h"
#include "serve/api/fields.h"

namespace makar {
namespace {

std::string key_of(const std::string& owner, const std::string& id) { return owner + '\n' + id; }

}  // namespace

void ResponseStore::drop(std::list<Kept>::iterator kept) {
  bytes_ -= kept->bytes;
  by_key_.erase(kept->key);
  kept_.erase(kept);
}

void ResponseStore::keep(const std::string& owner, const Json& response, Json input) {
  // Estimate: parsed JSON takes a few times its text.
  const size_t bytes = 4 * (dump(response).size() + dump(input).size());
  Kept kept{owner, key_of(owner, response["id"].get<std::string>()), std::make_shared<const Json>(response),
            std::make_shared<const Json>(std::move(input)), bytes};
  const std::lock_guard lock(mutex_);
  if (kept.bytes > max_bytes_ / (owner.empty() ? 1 : 4) || max_ == 0) return;
  make_room(owner, kept.bytes);
  bytes_ += kept.bytes;
  kept_.push_front(std::move(kept));
  by_key_[kept_.front().key] = kept_.begin();
}

void ResponseStore::make_room(const std::string& owner, size_t bytes) {
  size_t count = 0, own = 0;
  for (const Kept& kept : kept_)
    if (kept.owner == owner) ++count, own += kept.bytes;
  const size_t share = owner.empty() ? 1 : 4, max = std::max<size_t>(max_ / share, 1);
  for (auto it = kept_.end(); it != kept_.begin() && (count >= max || own + bytes > max_bytes_ / share);) {
    const auto last = std::prev(it);
    if (last->owner == owner)
      --count, own -= last->bytes, drop(last);
    else
      it = last;
  }
  while (!kept_.empty() && (kept_.size() >= max_ || bytes_ + bytes > max_bytes_))
    drop(std::prev(kept_.end()));
}

Result<ResponseStore::Kept*> ResponseStore::find(const std::string& owner, const std::string& id) {
  const auto it = by_key_.find(key_of(owner, id));
  if (it == by_key_.end())
    return error_of(Error::Kind::kNotFound, "response_id", "response {} not found", quote(id));
  kept_.splice(kept_.begin(), kept_, it->second);
  return &kept_.front();
}

Result<ResponseStore::Shared> ResponseStore::response(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const Kept* kept, find(owner, id));
  return kept->response;
}

Result<ResponseStore::Shared> ResponseStore::input(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const Kept* kept, find(owner, id));
  return kept->input;
}

Status ResponseStore::remove(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY([[maybe_unused]] const Kept* kept, find(owner, id));
  drop(kept_.begin());
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
      const Kept& kept = **found;
      items.push_back(kept.response), items.push_back(kept.input);
      count += kept.input->size() + (*kept.response)["output"].size();
      if (count > kMaxSessionMessages)
        return error_at("previous_response_id", "the conversation has more than {} items",
                        kMaxSessionMessages);
      const Json& previous = (*kept.response)["previous_response_id"];
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
  return kept_.size();
}

}  // namespace makar
