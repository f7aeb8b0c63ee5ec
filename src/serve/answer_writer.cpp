#include "serve/answer_writer.h"

#include "base/utf8.h"
#include "infer/score_job.h"

namespace makar {

// One prompt in the engine: scored first if it is echoed with log-probabilities, then continued.
class AnswerWriter::PromptTask : public EngineTask {
 public:
  PromptTask(std::shared_ptr<AnswerWriter> owner, size_t prompt) : owner_(std::move(owner)), prompt_(prompt) {
    cancelled = owner_->cancelled_;
  }

  Status begin(Engine& engine) override {
    engine_ = &engine;
    const GenerationRequest& request = owner_->request_;
    const std::vector<int64_t>& ids = owner_->prompts_[prompt_];
    owner_->reply_->count(static_cast<int64_t>(ids.size()), 0);
    if (request.echo && request.options.logprobs >= 0 && ids.size() > 1) {
      score_ = std::make_shared<ScoreJob>(ids, 1, request.options.logprobs);
      score_->adapter = request.options.adapter, score_->salt = request.options.salt;
      score_->priority = request.options.priority;
      engine.submit(score_);
      return Done{};
    }
    return start_generation();
  }

  bool done() override {
    if (score_ && score_->done() && !generation_ && !error_) {
      if (score_->error) return error_ = score_->error, true;
      if (const Status status = start_generation(); !status.ok()) error_ = status.error();
    }
    return error_ || echoed_ || (generation_ && generation_->done());
  }

  void finish() override {
    if (error_) return owner_->failed(*error_);
    if (echoed_) return owner_->scored(prompt_);
    auto result = generation_->finish();
    if (!result.ok()) return owner_->failed(result.error());
    // The generation reuses this request's own prefill.
    if (score_) result->reused_tokens = score_->reused_tokens.value_or(0);
    owner_->finished(prompt_, std::move(*result));
  }

  void fail(const Error& why) override { owner_->failed(why); }
  bool started() const override { return started_; }

  void release() override {
    generation_.reset();
    if (score_ && engine_) engine_->cancel(*score_);
    score_.reset();
  }

 private:
  // Echoes the prompt if requested and starts generation.
  Status start_generation() {
    AnswerWriter& owner = *owner_;
    const std::vector<int64_t>& ids = owner.prompts_[prompt_];
    if (owner.request_.echo) {
      std::vector<GeneratedToken> tokens;
      for (size_t i = 0; i < ids.size(); ++i) {
        GeneratedToken token{ids[i], {}};
        token.logprobs.rank = -1;
        if (i > 0 && score_) token.logprobs = score_->scores().at(i - 1);
        tokens.push_back(std::move(token));
      }
      owner.echo(prompt_, tokens);
    }
    if (owner.request_.only_score) return echoed_ = true, Done{};
    TextGenerationOptions o = owner.request_.options;
    const size_t first = prompt_ * static_cast<size_t>(o.answers);
    o.on_token = [this, first](int64_t answer, const GeneratedToken& token) {
      started_ = true;
      owner_->token(first + static_cast<size_t>(answer), token);
    };
    o.on_text = [this, first](int64_t answer, const std::string& text) {
      // A streaming failure ends this request, not the step.
      try {
        const size_t index = first + static_cast<size_t>(answer);
        if (owner_->request_.stream) owner_->text(index, text);
        if (owner_->answers_[index].filter.rejected()) return false;
      } catch (const std::exception& e) {
        error_ = error_of(Error::Kind::kIo, "answer", "internal error: {}", e.what());
      }
      return !*cancelled && !error_;
    };
    MAKAR_TRY(generation_, TextGeneration::begin(*engine_, owner.model_.language, ids, o));
    return Done{};
  }

  std::shared_ptr<AnswerWriter> owner_;
  size_t prompt_;
  Engine* engine_ = nullptr;
  std::shared_ptr<ScoreJob> score_;
  std::unique_ptr<TextGeneration> generation_;
  std::optional<Error> error_;
  bool echoed_ = false;   // only the prompt was requested, and it is echoed
  bool started_ = false;  // has generated a token
};

AnswerWriter::AnswerWriter(GenerationRequest request, ModelLease model, std::shared_ptr<LoggedReply> reply,
                           Gate::Ticket ticket)
    : ticket_(std::move(ticket)),
      lease_(std::move(model)),
      model_(lease_.served()),
      loop_(lease_.loop()),
      request_(std::move(request)),
      reply_(std::move(reply)) {}

void AnswerWriter::start(GenerationRequest request, std::vector<std::vector<int64_t>> prompts,
                         ModelLease model, std::shared_ptr<LoggedReply> reply, Gate::Ticket ticket,
                         std::chrono::seconds time_limit, RunOnWorker run_on_worker) {
  const std::shared_ptr<AnswerWriter> self(
      new AnswerWriter(std::move(request), std::move(model), std::move(reply), std::move(ticket)));
  self->run_on_worker_ = std::move(run_on_worker);
  EngineLoop& loop = self->loop_;
  GenerationRequest& req = self->request_;
  req.options.max_time = static_cast<double>(time_limit.count());
  std::set<std::string> names;
  if (req.chat && req.chat->tools.is_array())
    for (const Json& tool : req.chat->tools) names.insert(tool["function"]["name"].get<std::string>());
  self->prompts_ = std::move(prompts);
  self->unfinished_prompts_ = self->prompts_.size();
  for (size_t i = 0; i < self->prompts_.size() * static_cast<size_t>(req.options.answers); ++i)
    self->answers_.emplace_back(names, req.tool_choice.parallel, req.filter.get());
  if (req.options.logprobs >= 0)
    for (size_t i = 0; i < self->answers_.size(); ++i)
      self->answers_[i].decoder.emplace(
          self->model_.language.tokenizer(), true,
          decoder_prompt(self->model_.language.model(),
                         self->prompts_[i / static_cast<size_t>(req.options.answers)]));
  for (const auto& prompt : self->prompts_) self->usage_.prompt += static_cast<int64_t>(prompt.size());
  self->reply_->on_disconnect([cancelled = self->cancelled_, active = std::weak_ptr(self->lease_.active)] {
    *cancelled = true;
    if (const auto model = active.lock()) model->loop.wake();
  });
  if (req.stream) {
    HttpResponse head;
    head.type = req.formatter->stream_type();
    head.headers = self->disclosure();
    head.body = req.formatter->format_start(self->usage_);
    self->reply_->begin(std::move(head));
  }
  const auto deadline = EngineTask::Clock::now() + time_limit;
  for (size_t i = 0; i < self->prompts_.size(); ++i) {
    auto task = std::make_shared<PromptTask>(self, i);
    task->deadline = deadline;
    loop.submit(std::move(task));
  }
}

// The header of the IETF draft "AI Content Disclosure": a structured field, so the name is a quoted ASCII
// string.
HttpHeaders AnswerWriter::disclosure() const {
  std::string model;
  for (const char c : lease_.name)
    if (c >= ' ' && c <= '~') model += c == '"' || c == '\\' ? '_' : c;
  return {{"ai-disclosure", fmt::format("mode=ai-originated, model=\"{}\", provider=\"makar\"", model)}};
}

void AnswerWriter::emit(std::string bytes) {
  if (!bytes.empty() && !over_) reply_->write(std::move(bytes));
}

// Moves the tokens that begin inside the text sent so far into the piece. An answer cut at the length limit
// may end inside a character; the tokens of that character have no text and are reported as well.
void AnswerWriter::report_covered(AnswerState& state, AnswerPiece& piece) {
  size_t reported = 0;
  for (const GeneratedToken& token : state.pending) {
    if (state.token_bytes >= state.text_bytes && !state.cut) break;
    piece.text_offsets.push_back(state.characters);
    const std::string text = state.decoder->push(static_cast<uint32_t>(token.id));
    state.token_bytes += text.size(), state.characters += count_code_points(text);
    piece.tokens.push_back(token);
    ++reported;
  }
  state.pending.erase(state.pending.begin(), state.pending.begin() + static_cast<int64_t>(reported));
}

void AnswerWriter::deliver(AnswerState& state, size_t index, AnswerPiece piece) {
  if (request_.options.logprobs >= 0) report_covered(state, piece);
  if (piece.text.empty() && piece.calls.empty() && piece.tokens.empty()) return;
  if (request_.stream) return emit(request_.formatter->format_delta(index, piece));
  CompleteAnswer& complete = state.complete;
  complete.text += piece.text;
  complete.tokens.insert(complete.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  complete.text_offsets.insert(complete.text_offsets.end(), piece.text_offsets.begin(),
                               piece.text_offsets.end());
  complete.calls.insert(complete.calls.end(), piece.calls.begin(), piece.calls.end());
}

bool AnswerWriter::files_intact() {
  if (!lease_.active->files_lost()) return true;
  failed(lease_.active->files_lost_error());
  return false;
}

void AnswerWriter::echo(size_t prompt, const std::vector<GeneratedToken>& tokens) {
  if (!files_intact()) return;
  std::string text;
  if (const auto* prompt_text = std::get_if<std::string>(&request_.prompts[prompt])) {
    text = *prompt_text;
  } else {
    const std::vector<int64_t>& ids = prompts_[prompt];
    text = model_.language.tokenizer().decode(std::vector<uint32_t>(ids.begin(), ids.end()), true);
  }
  AnswerPiece piece;
  piece.text = text;
  size_t offset = 0;
  if (request_.options.logprobs >= 0) {
    piece.tokens = tokens;
    StreamDecoder decoder(model_.language.tokenizer());
    for (const GeneratedToken& token : tokens) {
      piece.text_offsets.push_back(offset);
      offset += count_code_points(decoder.push(static_cast<uint32_t>(token.id)));
    }
  }
  const auto answers = static_cast<size_t>(request_.options.answers);
  for (size_t i = prompt * answers; i < (prompt + 1) * answers; ++i) {
    answers_[i].characters = offset;
    if (request_.stream)
      emit(request_.formatter->format_delta(i, piece));
    else
      static_cast<AnswerPiece&>(answers_[i].complete) = piece;
  }
}

void AnswerWriter::token(size_t index, const GeneratedToken& token) {
  reply_->first_token();
  reply_->count(0, 1);
  ++answers_[index].counted;
  if (request_.stream && request_.options.logprobs >= 0) answers_[index].pending.push_back(token);
}

void AnswerWriter::text(size_t index, const std::string& text) {
  if (!files_intact()) return;
  AnswerState& state = answers_[index];
  const std::string sent = state.filter.push(text);
  if (sent.empty()) return;
  state.text_bytes += sent.size();
  deliver(state, index, {state.reader.push(sent), {}, {}});
}

void AnswerWriter::finished(size_t prompt, TextGenerationResult result) {
  if (over_ || !files_intact()) return;
  const size_t first = prompt * static_cast<size_t>(request_.options.answers);
  usage_.cached += result.reused_tokens;
  for (size_t i = 0; i < result.answers.size(); ++i) {
    AnswerState& state = answers_[first + i];
    GeneratedText& answer = result.answers[i];
    const auto token_count = static_cast<int64_t>(answer.tokens.size());
    usage_.completion += token_count;
    reply_->count(0, token_count - state.counted);  // tokens chosen only at the end (best_of, beams)
    if (!request_.stream) {
      state.pending = std::move(answer.tokens);
      text(first + i, answer.text);
    }
    if (const std::string rest = state.filter.finish(); !rest.empty()) {
      state.text_bytes += rest.size();
      deliver(state, first + i, {state.reader.push(rest), {}, {}});
    }
    state.cut = answer.finish == Finish::kLength && !state.filter.rejected();
    deliver(state, first + i, {state.reader.finish(), {}, {}});
    state.complete.end = {answer.finish, answer.stop_string, state.reader.calls() > 0,
                          state.filter.rejected()};
    if (request_.stream) emit(request_.formatter->format_end(first + i, state.complete.end));
  }
  prompt_done();
}

void AnswerWriter::scored(size_t prompt) {
  if (over_ || !files_intact()) return;
  const auto answers = static_cast<size_t>(request_.options.answers);
  for (size_t i = prompt * answers; i < (prompt + 1) * answers; ++i) {
    answers_[i].complete.end.finish = Finish::kLength;
    if (request_.stream) emit(request_.formatter->format_end(i, answers_[i].complete.end));
  }
  prompt_done();
}

void AnswerWriter::prompt_done() {
  if (over_ || --unfinished_prompts_ > 0) return;
  if (const auto cost = reply_->cost()) usage_.cost = cost->money, usage_.currency = reply_->currency();
  if (request_.stream) {
    emit(request_.formatter->format_done(usage_));
    over_ = true;
    return reply_->end();
  }
  over_ = true;  // no callback touches the answers from here on
  run_on_worker_([self = shared_from_this()] {
    std::vector<CompleteAnswer> answers;
    for (AnswerState& state : self->answers_) answers.push_back(std::move(state.complete));
    HttpResponse response;
    response.headers = self->disclosure();
    response.body = self->request_.formatter->format_complete(answers, self->usage_) + "\n";
    self->reply_->send(std::move(response));
  });
}

void AnswerWriter::failed(const Error& error) {
  if (over_) return;
  const ApiError api_error = ApiError::of(error);
  reply_->failed(error.text());
  if (request_.stream) {
    emit(request_.formatter->format_error(api_error));
    reply_->end();
  } else {
    reply_->send(error_response(request_.formatter->dialect(), api_error));
  }
  over_ = true;
  *cancelled_ = true;  // cancels the request's other prompts
  loop_.wake();
}

}  // namespace makar
