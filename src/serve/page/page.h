// What the page asks for under /makar/ beside the API: conversations, preferences, runs. Looking inside and
// the engine's state need the engine and stay with the service.
#pragma once
#include <memory>
#include <mutex>

#include "serve/http/http.h"
#include "serve/page/store.h"

namespace makar {

struct PageOptions {
  std::string store;          // the file of conversations; "none": they are not kept
  std::string runs = "runs";  // the folder of trainings
};

class Page {
 public:
  explicit Page(PageOptions options) : options_(std::move(options)) {}

  // Opens the store now rather than when it is first needed.
  Status open_store();
  // On a worker. The answer, or what is wrong. `owner`: whose conversations they are.
  Result<HttpResponse> answer(const HttpRequest& request, const std::string& owner);

 private:
  Result<Store*> store();
  Result<Json> conversations(const HttpRequest& request, const std::string& owner,
                             const std::vector<std::string>& path);
  PageOptions options_;
  std::mutex mutex_;
  std::unique_ptr<Store> store_;
};

}  // namespace makar
