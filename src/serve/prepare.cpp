#include "serve/prepare.h"

#include <random>

#include "llm/infill.h"
#include "serve/api/tool_calls.h"

namespace makar {
namespace {

// Template and tokenizer errors name files; replace that by the request field.
Error at_field(const Error& error, const std::string& field) {
  return {error.kind == Error::Kind::kNotFound ? Error::Kind::kUnsupported : error.kind, field,
          error.message};
}

Result<std::vector<int64_t>> encode_conversation(const Ask& ask, const ServedModel& model,
                                                 bool forced) {
  const LanguageModel& language = model.language;
  if (!language.chat_template())
    return error_of(Error::Kind::kUnsupported, "messages",
                    "the model has no chat template; start the server with --chat-template, or continue text "
                    "with /v1/completions");
  if (ask.chat->tools.is_array() && !ask.chat->tools.empty() &&
      ask.tool_choice.kind != ToolChoice::Kind::kNone &&
      language.chat_template()->source().find("tools") == std::string::npos)
    return error_of(Error::Kind::kUnsupported, "tools",
                    "the chat template of this model has no place for tools; leave them out, or start the "
                    "server with a --chat-template that renders them");
  auto ids = language.encode_chat(*ask.chat);
  if (!ids.ok()) return at_field(ids.error(), "messages");
  // A forced tool call starts with the template's opening tag.
  if (forced && language.chat_template()->source().find("<tool_call>") != std::string::npos) {
    EncodeOptions o;
    o.offsets = false, o.special_text = SpecialText::kParse;
    MAKAR_TRY(const Encoding opening, language.tokenizer().encode("<tool_call>\n", o));
    ids->insert(ids->end(), opening.ids.begin(), opening.ids.end());
  }
  return ids;
}

// Encodes the conversation. With drop_oldest, drops the fewest oldest turns that make it fit.
Result<std::vector<int64_t>> fit_conversation(Ask& ask, const ServedModel& model, bool forced) {
  MAKAR_TRY(std::vector<int64_t> ids, encode_conversation(ask, model, forced));
  const Status fits = check_room(ids, model, "messages");
  if (fits.ok()) return ids;
  if (!ask.drop_oldest || fits.error().kind != Error::Kind::kLimit) return fits.error();
  const Json all = ask.chat->messages;
  size_t head = 0;
  while (head < all.size() && all[head]["role"] == "system") ++head;
  std::vector<size_t> turns;  // user messages at which the conversation can start
  for (size_t i = head + 1; i < all.size(); ++i)
    if (all[i]["role"] == "user") turns.push_back(i);
  std::optional<std::vector<int64_t>> best;
  for (size_t low = 0, high = turns.size(); low < high;) {
    const size_t middle = (low + high) / 2;
    Json& kept = ask.chat->messages = Json::array();
    for (size_t i = 0; i < all.size(); ++i)
      if (i < head || i >= turns[middle]) kept.push_back(all[i]);
    MAKAR_TRY(ids, encode_conversation(ask, model, forced));
    if (check_room(ids, model, "messages").ok())
      high = middle, best = std::move(ids);
    else
      low = middle + 1;
  }
  if (!best) return fits.error();
  return std::move(*best);
}

Status constrain_answer(Ask& ask, const ServedModel& model, WorkBudget& work) {
  const bool schema = !ask.schema.empty();
  if (!schema && ask.grammar.empty() && ask.regex.empty()) return Done{};
  const auto rules = schema                 ? Grammar::from_json_schema(ask.schema, {}, &work)
                     : !ask.grammar.empty() ? Grammar::from_gbnf(ask.grammar, {}, &work)
                                            : Grammar::from_regex(ask.regex, {}, &work);
  const char* field = schema ? "response_format" : !ask.grammar.empty() ? "grammar" : "guided_regex";
  if (!rules.ok()) return Error{rules.error().kind, field, rules.error().text()};
  auto constraint = model.constrainer.constrain(*rules);
  if (!constraint.ok()) return Error{constraint.error().kind, field, constraint.error().text()};
  ask.write.constraint = std::move(*constraint);
  return Done{};
}

}  // namespace

size_t preparation_bytes(const Ask& ask) {
  const bool forced =
      ask.tool_choice.kind == ToolChoice::Kind::kRequired || ask.tool_choice.kind == ToolChoice::Kind::kNamed;
  // A short pattern can compile to a large automaton.
  if (forced || !ask.schema.empty() || !ask.grammar.empty() || !ask.regex.empty()) return size_t{1} << 20;
  size_t bytes = ask.suffix ? ask.suffix->size() : 0;
  for (const PromptInput& prompt : ask.prompts)
    if (const auto* text = std::get_if<std::string>(&prompt)) bytes += text->size();
  if (ask.chat)
    for (const Json& message : ask.chat->messages)
      if (const auto content = message.find("content"); content != message.end() && content->is_string())
        bytes += 64 + content->get_ref<const std::string&>().size();
  return bytes;
}

const char* uses_of(const ModelSpec& spec) {
  if (spec.head.kind == HeadKind::kSequenceClass)
    return "ask it for /v1/moderations, /v1/rerank or /v1/embeddings";
  return "ask it for /v1/embeddings or /v1/rerank";
}

Result<ServedModel> ServedModel::of(LanguageModel language, const ContextOptions& context,
                                    const std::string& name, const std::string& path) {
  MAKAR_TRY(Constrainer constrainer, Constrainer::of(language));
  std::vector<std::string> tokens = constrainer.bytes();
  for (const AddedToken& added : language.tokenizer().added_tokens())
    if (added.id < tokens.size() && tokens[added.id].empty()) tokens[added.id] = added.content;
  return ServedModel{std::move(language), std::move(constrainer), std::move(tokens), context, name, path};
}

Status check_room(const std::vector<int64_t>& prompt, const ServedModel& model, const std::string& place) {
  const int64_t limit = model.context_limit();
  if (limit > 0 && model.context.policy == ContextPolicy::kError &&
      static_cast<int64_t>(prompt.size()) >= limit + (model.language.spec().encoder ? 1 : 0))
    return error_of(Error::Kind::kLimit, place,
                    "has {} tokens; the context of this model is {} with the answer", prompt.size(), limit);
  std::vector<int64_t> copy = prompt;
  Decoding one;
  one.max_new_tokens = 1;
  const Status fits = fit_request(model.language.model(), model.context, copy, one);
  return fits.ok() ? Status(Done{}) : at_field(fits.error(), place);
}

Result<std::vector<std::vector<int64_t>>> prepare(Ask& ask, const ServedModel& model,
                                                  WorkBudget& work) {
  using Kind = ToolChoice::Kind;
  const LanguageModel& language = model.language;
  if (language.spec().head.kind != HeadKind::kCausalLm)
    return error_of(Error::Kind::kUnsupported, "model", "a {} does not write text; {}",
                    language.spec().architecture, uses_of(language.spec()));
  std::vector<std::vector<int64_t>> prompts;
  if (ask.chat) {
    const bool forced = ask.tool_choice.kind == Kind::kRequired || ask.tool_choice.kind == Kind::kNamed;
    if (forced) ask.schema = call_schema(ask.chat->tools, ask.tool_choice.name);
    ask.chat->work = &work;
    auto ids = fit_conversation(ask, model, forced);
    ask.chat->work = nullptr;  // the request outlives the budget
    if (!ids.ok()) return ids.error();
    prompts.push_back(std::move(*ids));
  }
  for (size_t i = 0; i < ask.prompts.size(); ++i) {
    const std::string place = ask.prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    if (const auto* text = std::get_if<std::string>(&ask.prompts[i])) {
      auto ids = ask.suffix ? encode_infill(language, *text, *ask.suffix, &work)
                            : language.encode(*text, false, &work);
      if (!ids.ok() && ids.error().place == "suffix") return ids.error();
      if (!ids.ok()) return at_field(ids.error(), place);
      if (ids->empty() && language.spec().bos >= 0) ids->push_back(language.spec().bos);
      prompts.push_back(std::move(*ids));
    } else if (ask.suffix) {
      return error_at("suffix", "follows a text; the prompt is a list of ids");
    } else {
      prompts.push_back(std::get<std::vector<int64_t>>(ask.prompts[i]));
    }
    MAKAR_CHECK_OK(check_room(prompts.back(), model, place));
  }
  for (const auto& [id, bias] : ask.write.sampler.logit_bias)
    if (id >= language.spec().vocab)
      return error_at("logit_bias", "token {} is not below the vocabulary's {}", id, language.spec().vocab);
  MAKAR_CHECK_OK(constrain_answer(ask, model, work));
  ask.write.fit = true;
  ask.write.speculation = model.speculation;
  if (!ask.seed_given) {
    static thread_local std::random_device random;
    ask.write.sampler.seed = (static_cast<uint64_t>(random()) << 32) | random();
  }
  if (const Status fine = check_writing(ask.write); !fine.ok()) return fine.error();
  return prompts;
}

}  // namespace makar
