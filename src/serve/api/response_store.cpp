#include "serve/api/response_store.h"

#include "base/shown.h"
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
  Kept kept{key_of(owner, response["id"].get<std::string>()), response, std::move(input), 0};
  // A value in memory takes a few times its text.
  kept.bytes = 4 * (dump(kept.response).size() + dump(kept.input).size());
  const std::lock_guard lock(mutex_);
  if (kept.bytes > most_bytes_ || most_ == 0) return;
  while (!kept_.empty() && (kept_.size() >= most_ || bytes_ + kept.bytes > most_bytes_))
    drop(std::prev(kept_.end()));
  bytes_ += kept.bytes;
  kept_.push_front(std::move(kept));
  by_key_[kept_.front().key] = kept_.begin();
}

Result<ResponseStore::Kept*> ResponseStore::find(const std::string& owner, const std::string& id) {
  const auto it = by_key_.find(key_of(owner, id));
  if (it == by_key_.end())
    return error_of(Error::Kind::kNotFound, "response_id", "no response {} is kept", shown(id));
  kept_.splice(kept_.begin(), kept_, it->second);
  return &kept_.front();
}

Result<Json> ResponseStore::response(const std::string& owner, const std::string& id) {
  const std::lock_guard lock(mutex_);
  MAKAR_TRY(const Kept* kept, find(owner, id));
  return kept->response;
}

Result<Json> ResponseStore::input(const std::string& owner, const std::string& id) {
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
  const std::lock_guard lock(mutex_);
  std::vector<const Kept*> turns;
  size_t items = 0;
  for (std::string next = id; !next.empty();) {
    const auto kept = find(owner, next);
    if (!kept.ok())
      return error_of(Error::Kind::kNotFound, "previous_response_id", "no response {} is kept{}", shown(next),
                      next == id ? std::string() : "; " + shown(id) + " goes on from it");
    turns.push_back(*kept);
    items += (*kept)->input.size() + (*kept)->response["output"].size();
    if (items > kMostMessages)
      return error_at("previous_response_id", "the conversation has more than {} items", kMostMessages);
    const Json& previous = (*kept)->response["previous_response_id"];
    next = previous.is_string() ? previous.get<std::string>() : "";
  }
  Json out = Json::array();
  for (size_t i = turns.size(); i-- > 0;) {
    for (const Json& item : turns[i]->input) out.push_back(item);
    for (const Json& item : turns[i]->response["output"]) out.push_back(item);
  }
  return out;
}

size_t ResponseStore::size() const {
  const std::lock_guard lock(mutex_);
  return kept_.size();
}

}  // namespace makar
