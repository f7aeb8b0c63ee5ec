// The routes of the page below /makar/: conversations, preferences, ratings, runs, results, agents. Routes
// that need the engine (inspections and the engine state) are in routes/page.cpp.
#pragma once
#include <memory>
#include <mutex>

#include "serve/http/http.h"
#include "serve/page/ratings.h"
#include "serve/page/store.h"

namespace makar {

struct PageOptions {
  std::string store;                // database file of conversations; "none": not stored
  std::string runs = "runs";        // folder of training runs
  std::string ratings = "ratings";  // folder of studies in which people rate answers
  std::string results = "results";  // folder of results of evaluations
  std::string agents = "agents";    // folder of traces of agents
};

class Page {
 public:
  explicit Page(PageOptions options) : options_(std::move(options)), ratings_(options_.ratings) {}

  // Opens the store eagerly.
  Status open_store();
  // An upper bound of the memory of the response; 0 if it is small.
  Result<int64_t> memory_of(const HttpRequest& request, const std::string& owner);
  // Called on a worker, as are later pieces of the body. `owner`: the owner of the conversations.
  Result<HttpResponse> answer(const HttpRequest& request, const std::string& owner);

 private:
  Result<Store*> store();
  Result<Json> conversations(const HttpRequest& request, const std::string& owner,
                             const std::vector<std::string>& path);
  // ratings[/STUDY[/next|/report|/preferences.jsonl]]
  Result<HttpResponse> rate(const HttpRequest& request, const std::vector<std::string>& path);
  // agents[/NAME[/answers]]
  Result<HttpResponse> agents(const HttpRequest& request, const std::vector<std::string>& path);
  // conversations/ID/markdown
  Result<HttpResponse> markdown(const std::string& owner, const std::string& id_text);
  // POST preferences, GET preferences.jsonl
  Result<HttpResponse> preferences(const HttpRequest& request, const std::string& owner);
  // messages/ID
  Result<HttpResponse> message(const HttpRequest& request, const std::string& owner,
                               const std::string& id_text);
  Result<HttpResponse> search(const HttpRequest& request, const std::string& owner);
  // results[/NAME]
  Result<HttpResponse> results(const std::vector<std::string>& path);
  // runs[/NAME]
  Result<HttpResponse> runs(const HttpRequest& request, const std::vector<std::string>& path);

  PageOptions options_;
  RatingStudies ratings_;
  std::mutex mutex_;
  std::unique_ptr<Store> store_;
};

}  // namespace makar
