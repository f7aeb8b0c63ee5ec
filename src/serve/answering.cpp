#include "serve/answering.h"

#include <algorithm>

#include "infer/score_job.h"

namespace makar {
namespace {

size_t characters(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

// One prompt in the engine: scored first if it is echoed with log-probabilities, then continued.
class Answering::PromptTask : public EngineTask {
 public:
  PromptTask(std::shared_ptr<Answering> owner, size_t prompt) : owner_(std::move(owner)), prompt_(prompt) {
    cancelled = owner_->cancelled_;
  }

  Status begin(Engine& engine) override {
    engine_ = &engine;
    const Ask& ask = owner_->ask_;
    const std::vector<int64_t>& ids = owner_->prompts_[prompt_];
    owner_->reply_->count(static_cast<int64_t>(ids.size()), 0);
    if (ask.echo && ask.write.logprobs >= 0 && ids.size() > 1) {
      score_ = std::make_shared<ScoreJob>(ids, 1, ask.write.logprobs);
      score_->adapter = ask.write.adapter, score_->salt = ask.write.salt;
      score_->priority = ask.write.priority;
      engine.submit(score_);
      return Done{};
    }
    return write();
  }

  bool done() override {
    if (score_ && score_->done() && !writing_ && !error_) {
      if (score_->error) return error_ = score_->error, true;
      if (const Status begun = write(); !begun.ok()) error_ = begun.error();
    }
    return error_ || over_ || (writing_ && writing_->done());
  }

  void finish() override {
    if (error_) return owner_->failed(*error_);
    if (over_) return owner_->scored(prompt_);
    auto result = writing_->finish();
    if (!result.ok()) return owner_->failed(result.error());
    if (score_)
      result->reused = score_->reused.value_or(0);  // the generation reuses this request's own prefill
    owner_->finished(prompt_, std::move(*result));
  }

  void fail(const Error& why) override { owner_->failed(why); }
  bool started() const override { return started_; }

  void release() override {
    writing_.reset();
    if (score_ && engine_) engine_->cancel(*score_);
    score_.reset();
  }

 private:
  // Echoes the prompt if requested and starts generation.
  Status write() {
    Answering& owner = *owner_;
    const std::vector<int64_t>& ids = owner.prompts_[prompt_];
    if (owner.ask_.echo) {
      std::vector<Written> tokens;
      for (size_t i = 0; i < ids.size(); ++i) {
        Written token{ids[i], {}};
        token.logprobs.rank = -1;
        if (i > 0 && score_) token.logprobs = score_->scores().at(i - 1);
        tokens.push_back(std::move(token));
      }
      owner.echo(prompt_, tokens);
    }
    if (owner.ask_.only_score) return over_ = true, Done{};
    WriteOptions o = owner.ask_.write;
    const size_t first = prompt_ * static_cast<size_t>(o.answers);
    o.on_token = [this, first](int64_t answer, const Written& token) {
      started_ = true;
      owner_->token(first + static_cast<size_t>(answer), token);
    };
    o.on_text = [this, first](int64_t answer, const std::string& text) {
      // A streaming failure ends this request, not the step.
      try {
        if (owner_->ask_.stream) owner_->text(first + static_cast<size_t>(answer), text);
      } catch (const std::exception& e) {
        error_ = error_of(Error::Kind::kIo, "answer", "internal error: {}", e.what());
      }
      return !*cancelled && !error_;
    };
    MAKAR_TRY(writing_, Writing::begin(*engine_, owner.model_.language, ids, o));
    return Done{};
  }

  std::shared_ptr<Answering> owner_;
  size_t prompt_;
  Engine* engine_ = nullptr;
  std::shared_ptr<ScoreJob> score_;
  std::unique_ptr<Writing> writing_;
  std::optional<Error> error_;
  bool over_ = false, started_ = false;
};

Answering::Answering(Ask ask, ModelLease model, std::shared_ptr<LoggedReply> reply,
                           Gate::Ticket ticket)
    : ticket_(std::move(ticket)),
      lease_(std::move(model)),
      model_(lease_.served()),
      loop_(lease_.loop()),
      ask_(std::move(ask)),
      reply_(std::move(reply)) {}

void Answering::start(Ask ask, std::vector<std::vector<int64_t>> prompts, ModelLease model,
                         std::shared_ptr<LoggedReply> reply, Gate::Ticket ticket, std::chrono::seconds time,
                         Elsewhere elsewhere) {
  const std::shared_ptr<Answering> self(
      new Answering(std::move(ask), std::move(model), std::move(reply), std::move(ticket)));
  self->elsewhere_ = std::move(elsewhere);
  EngineLoop& loop = self->loop_;
  Ask& a = self->ask_;
  a.write.max_time = static_cast<double>(time.count());
  std::set<std::string> names;
  if (a.chat && a.chat->tools.is_array())
    for (const Json& tool : a.chat->tools) names.insert(tool["function"]["name"].get<std::string>());
  self->prompts_ = std::move(prompts);
  self->left_ = self->prompts_.size();
  for (size_t i = 0; i < self->prompts_.size() * static_cast<size_t>(a.write.answers); ++i)
    self->lines_.emplace_back(names, a.tool_choice.parallel);
  if (a.write.logprobs >= 0)
    for (size_t i = 0; i < self->lines_.size(); ++i)
      self->lines_[i].decoder.emplace(
          self->model_.language.tokenizer(), true,
          decoder_prompt(self->model_.language.model(),
                         self->prompts_[i / static_cast<size_t>(a.write.answers)]));
  for (const auto& prompt : self->prompts_) self->usage_.prompt += static_cast<int64_t>(prompt.size());
  self->reply_->on_gone([cancelled = self->cancelled_, active = std::weak_ptr(self->lease_.active)] {
    *cancelled = true;
    if (const auto model = active.lock()) model->loop.wake();
  });
  if (a.stream) {
    HttpResponse head;
    head.type = a.shape->stream_type();
    head.body = a.shape->begin(self->usage_);
    self->reply_->begin(std::move(head));
  }
  const auto deadline = EngineTask::Clock::now() + time;
  for (size_t i = 0; i < self->prompts_.size(); ++i) {
    auto task = std::make_shared<PromptTask>(self, i);
    task->deadline = deadline;
    loop.submit(std::move(task));
  }
}

void Answering::emit(std::string bytes) {
  if (!bytes.empty() && !over_) reply_->write(std::move(bytes));
}

// Moves the tokens that begin inside the text sent so far into the piece.
void Answering::report_covered(Line& line, AnswerPiece& piece) {
  size_t taken = 0;
  for (const Written& token : line.pending) {
    if (line.token_bytes >= line.text_bytes) break;
    piece.text_offsets.push_back(line.characters);
    const std::string text = line.decoder->push(static_cast<uint32_t>(token.id));
    line.token_bytes += text.size(), line.characters += characters(text);
    piece.tokens.push_back(token);
    ++taken;
  }
  line.pending.erase(line.pending.begin(), line.pending.begin() + static_cast<int64_t>(taken));
}

void Answering::tell(Line& line, size_t index, AnswerPiece piece) {
  if (ask_.write.logprobs >= 0) report_covered(line, piece);
  if (piece.text.empty() && piece.calls.empty() && piece.tokens.empty()) return;
  if (ask_.stream) return emit(ask_.shape->piece(index, piece));
  WholeAnswer& whole = line.whole;
  whole.text += piece.text;
  whole.tokens.insert(whole.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  whole.text_offsets.insert(whole.text_offsets.end(), piece.text_offsets.begin(), piece.text_offsets.end());
  whole.calls.insert(whole.calls.end(), piece.calls.begin(), piece.calls.end());
}

bool Answering::files_intact() {
  if (!lease_.active->files_lost()) return true;
  failed(lease_.active->files_lost_error());
  return false;
}

void Answering::echo(size_t prompt, const std::vector<Written>& tokens) {
  if (!files_intact()) return;
  std::string text;
  if (const auto* given = std::get_if<std::string>(&ask_.prompts[prompt])) {
    text = *given;
  } else {
    const std::vector<int64_t>& ids = prompts_[prompt];
    text = model_.language.tokenizer().decode(std::vector<uint32_t>(ids.begin(), ids.end()), true);
  }
  AnswerPiece piece;
  piece.text = text;
  size_t before = 0;
  if (ask_.write.logprobs >= 0) {
    piece.tokens = tokens;
    StreamDecoder decoder(model_.language.tokenizer());
    for (const Written& token : tokens) {
      piece.text_offsets.push_back(before);
      before += characters(decoder.push(static_cast<uint32_t>(token.id)));
    }
  }
  const auto answers = static_cast<size_t>(ask_.write.answers);
  for (size_t i = prompt * answers; i < (prompt + 1) * answers; ++i) {
    lines_[i].characters = before;
    if (ask_.stream)
      emit(ask_.shape->piece(i, piece));
    else
      static_cast<AnswerPiece&>(lines_[i].whole) = piece;
  }
}

void Answering::token(size_t index, const Written& token) {
  reply_->first_token();
  reply_->count(0, 1);
  ++lines_[index].counted;
  if (ask_.stream && ask_.write.logprobs >= 0) lines_[index].pending.push_back(token);
}

void Answering::text(size_t index, const std::string& text) {
  if (!files_intact()) return;
  Line& line = lines_[index];
  line.text_bytes += text.size();
  tell(line, index, line.reader.push(text));
}

void Answering::finished(size_t prompt, WriteResult result) {
  if (over_ || !files_intact()) return;
  const size_t first = prompt * static_cast<size_t>(ask_.write.answers);
  usage_.cached += result.reused;
  for (size_t i = 0; i < result.answers.size(); ++i) {
    Line& line = lines_[first + i];
    WrittenText& answer = result.answers[i];
    const auto written = static_cast<int64_t>(answer.tokens.size());
    usage_.completion += written;
    reply_->count(0, written - line.counted);  // tokens chosen only at the end (best_of, beams)
    if (!ask_.stream) {
      line.pending = std::move(answer.tokens);
      text(first + i, answer.text);
    }
    tell(line, first + i, line.reader.finish());
    line.whole.end = {answer.finish, answer.stop_string, line.reader.calls() > 0};
    if (ask_.stream) emit(ask_.shape->end(first + i, line.whole.end));
  }
  prompt_done();
}

void Answering::scored(size_t prompt) {
  if (over_ || !files_intact()) return;
  const auto answers = static_cast<size_t>(ask_.write.answers);
  for (size_t i = prompt * answers; i < (prompt + 1) * answers; ++i) {
    lines_[i].whole.end.finish = Finish::kLength;
    if (ask_.stream) emit(ask_.shape->end(i, lines_[i].whole.end));
  }
  prompt_done();
}

void Answering::prompt_done() {
  if (over_ || --left_ > 0) return;
  if (ask_.stream) {
    emit(ask_.shape->done(usage_));
    over_ = true;
    return reply_->end();
  }
  over_ = true;  // no callback touches the answers from here on
  elsewhere_([self = shared_from_this()] {
    std::vector<WholeAnswer> answers;
    for (Line& line : self->lines_) answers.push_back(std::move(line.whole));
    HttpResponse response;
    response.body = self->ask_.shape->whole(answers, self->usage_) + "\n";
    self->reply_->send(std::move(response));
  });
}

void Answering::failed(const Error& error) {
  if (over_) return;
  const ApiError told = ApiError::of(error);
  reply_->failed(error.text());
  if (ask_.stream) {
    emit(ask_.shape->failed(told));
    reply_->end();
  } else {
    reply_->send(error_response(ask_.shape->dialect(), told));
  }
  over_ = true;
  *cancelled_ = true;  // cancels the request's other prompts
  loop_.wake();
}

}  // namespace makar
