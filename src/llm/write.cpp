#include "llm/write.h"

#include <algorithm>

#include "llm/text_stream.h"

namespace makar {

const char* name(Finish finish) {
  switch (finish) {
    case Finish::kNone:
      return "none";
    case Finish::kStop:
    case Finish::kCaller:
      return "stop";
    case Finish::kLength:
      return "length";
  }
  return "none";
}

namespace {

Status run(Engine& engine, const std::shared_ptr<Job>& job) {
  engine.submit(job);
  while (!job->done() && engine.step()) {
  }
  if (job->error) return *job->error;
  return Done{};
}

int64_t room_for(const ModelSpec& spec, const std::vector<int64_t>& prompt, const WriteOptions& o) {
  if (!o.fit || spec.max_positions <= 0) return o.max_new_tokens;
  const int64_t taken = spec.encoder ? 1 : static_cast<int64_t>(prompt.size());
  return std::clamp<int64_t>(spec.max_positions - taken + 1, 1, o.max_new_tokens);
}

Result<WriteResult> write_beams(Engine& engine, const LanguageModel& language,
                                const std::vector<int64_t>& prompt, const WriteOptions& o,
                                int64_t max_new_tokens) {
  BeamRequest r;
  r.prompt = decoder_prompt(language.model(), prompt);
  r.max_new_tokens = max_new_tokens, r.beams = o.beams, r.answers = o.answers,
  r.length_penalty = o.length_penalty;
  r.stop = language.stop_ids(), r.sampler = o.sampler;
  const auto job = std::make_shared<BeamJob>(std::move(r));
  if (language.spec().encoder) job->source = prompt;
  MAKAR_CHECK_OK(run(engine, job));
  WriteResult out;
  for (const auto& answer : job->answers()) {
    WrittenText text;
    text.score = answer.score;
    TextStream stream(language.tokenizer(), o.stop, !o.keep_special);
    for (const int64_t id : answer.tokens) text.tokens.push_back({id, {}}), text.text += stream.push(id);
    text.text += stream.finish();
    const auto& stop = language.stop_ids();
    const bool ended =
        !answer.tokens.empty() && std::find(stop.begin(), stop.end(), answer.tokens.back()) != stop.end();
    text.finish = ended || stream.stopped() ? Finish::kStop : Finish::kLength;
    out.answers.push_back(std::move(text));
  }
  if (o.on_text)
    for (size_t i = 0; i < out.answers.size(); ++i) o.on_text(static_cast<int64_t>(i), out.answers[i].text);
  return out;
}

}  // namespace

Result<WriteResult> write_text(Engine& engine, const LanguageModel& language,
                               const std::vector<int64_t>& prompt, const WriteOptions& o) {
  const int64_t most = room_for(language.spec(), prompt, o);
  MAKAR_CHECK_OK(check_request(language.model(), prompt, most));
  const EngineStats before = engine.stats();
  WriteResult out;
  if (o.beams > 1) {
    MAKAR_TRY(out, write_beams(engine, language, prompt, o, most));
  } else {
    out.answers.resize(static_cast<size_t>(o.answers));
    std::vector<TextStream> streams;
    for (int64_t i = 0; i < o.answers; ++i)
      streams.emplace_back(language.tokenizer(), o.stop, !o.keep_special);
    const auto hand_out = [&](int64_t answer, const std::string& text) {
      out.answers[static_cast<size_t>(answer)].text += text;
      return text.empty() || !o.on_text || o.on_text(answer, text);
    };
    SampleRequest r;
    r.prompt = decoder_prompt(language.model(), prompt);
    r.max_new_tokens = most, r.answers = o.answers, r.sampler = o.sampler, r.logprobs = o.logprobs;
    r.stop = language.stop_ids(), r.constraint = o.constraint;
    r.drafter = o.drafter, r.draft_tokens = o.draft_tokens;
    if (o.lookup && !r.drafter) r.drafter = std::make_shared<LookupDrafter>();
    r.on_token = [&](int64_t answer, const Written& token) {
      TextStream& stream = streams[static_cast<size_t>(answer)];
      return hand_out(answer, stream.push(token.id)) && !stream.stopped();
    };
    const auto job = std::make_shared<SampleJob>(std::move(r));
    if (language.spec().encoder) job->source = prompt;
    MAKAR_CHECK_OK(run(engine, job));
    for (int64_t i = 0; i < o.answers; ++i) {
      hand_out(i, streams[static_cast<size_t>(i)].finish());
      out.answers[static_cast<size_t>(i)].tokens = job->answers()[static_cast<size_t>(i)].tokens;
      out.answers[static_cast<size_t>(i)].finish = job->answers()[static_cast<size_t>(i)].finish;
    }
    out.guessed = job->guessed(), out.accepted = job->accepted();
  }
  out.prompt_tokens = static_cast<int64_t>(prompt.size());
  out.steps = engine.stats().steps - before.steps;
  return out;
}

}  // namespace makar
