// A collection of an index that is served as a model: questions are answered from its passages.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "retrieval/answer.h"

namespace makar {

// Thread-safe. The index is opened by the first question, and again after the file has changed.
class ServedCollection {
 public:
  using Opener = std::function<Result<std::unique_ptr<Searcher>>()>;
  // `name`: the model name in requests; `path`: the index file.
  ServedCollection(std::string name, std::string path, AskOptions options, Opener open)
      : name_(std::move(name)),
        path_(std::move(path)),
        options_(std::move(options)),
        open_(std::move(open)) {}

  const std::string& name() const { return name_; }
  // The relevant passages, best first; empty if there are none.
  Result<std::vector<SearchHit>> find(const std::string& query);
  // The number of words of a text that are not stop words.
  size_t terms(const std::string& text);
  // How well the sources support an answer: {"groundedness", "sentences"}.
  Json grounding(const std::string& answer, const std::vector<SearchHit>& sources);

 private:
  Status refresh();
  const std::string name_, path_;
  const AskOptions options_;
  const Opener open_;
  std::mutex mutex_;
  std::unique_ptr<Searcher> searcher_;
  std::string stamp_;  // sizes and times of the files when the index was opened
};

}  // namespace makar
