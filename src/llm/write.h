// A request in text through the engine.
#pragma once
#include <functional>

#include "infer/decoding.h"
#include "infer/engine.h"
#include "llm/embed.h"
#include "llm/text_stream.h"
#include "metrics/overlap.h"

namespace makar {

struct WriteOptions : Decoding {
  WriteOptions() { max_new_tokens = 256; }
  std::vector<std::string> stop;     // strings that end the text; they are not part of it
  bool fit = false;                  // fewer new tokens where the context has no room, instead of an error
  std::shared_ptr<Drafter> drafter;  // guesses by another model
  int64_t draft_tokens = 4;
  bool lookup = false;        // guesses by prompt look-up
  bool keep_special = false;  // control tokens are shown
  int32_t adapter = -1;       // of those the model offers; -1: none
  int64_t priority = 0;       // higher ones go first
  std::string salt;           // requests of different salts share no pages
  std::shared_ptr<Constraint> constraint;
  // Minimum Bayes risk: draws this many answers and keeps those most like all of them; 0: off.
  int64_t mbr = 0;
  Overlap mbr_metric = Overlap::kChrf;
  bool mbr_embedding = false;  // by the embeddings of `embedder` instead
  std::shared_ptr<Embedder> embedder;
  std::function<bool(int64_t answer, const std::string& text)> on_text;  // false ends that answer
  // Each token of drawn answers, before the text that it completes.
  std::function<void(int64_t answer, const Written& token)> on_token;
};

// check_decoding(), and the bounds of what is added here.
Status check_writing(const WriteOptions& options);

struct WrittenText : Answer {
  std::string text;
  std::string stop_string;  // that ended it, where one did
};

struct WriteResult {
  std::vector<WrittenText> answers;
  int64_t prompt_tokens = 0, reused = 0;  // of the prompt's, those that other requests had read before
  int64_t steps = 0, guessed = 0, accepted = 0;
};

// A request on its way. Any number of them may be in one engine; whoever steps it brings all of them on.
class Writing {
 public:
  // The engine, the model and what `options` refers to must outlive it.
  static Result<std::unique_ptr<Writing>> begin(Engine& engine, const LanguageModel& language,
                                                std::vector<int64_t> prompt, const WriteOptions& options);
  ~Writing();  // takes back a request that is not done

  bool done() const { return job_->done(); }
  // Once it is done.
  Result<WriteResult> finish();

 private:
  Writing(Engine& engine, const WriteOptions& options) : engine_(engine), options_(options) {}
  bool hand_out(size_t answer, const std::string& text);

  Engine& engine_;
  WriteOptions options_;
  std::shared_ptr<WriteJob> job_;
  std::vector<TextStream> streams_;
  std::vector<std::string> texts_;
  std::vector<size_t> pushed_;  // tokens that became text, of each answer
  bool streaming_ = false;      // nothing is chosen among the answers: text is handed out as it comes
  int64_t prompt_tokens_ = 0, steps_before_ = 0;
};

// Runs until this request is answered; the engine may hold others.
Result<WriteResult> write_text(Engine& engine, const LanguageModel& language, std::vector<int64_t> prompt,
                               const WriteOptions& options);

const char* name(Finish finish);  // "stop", "length", "time", "unsure"

}  // namespace makar
