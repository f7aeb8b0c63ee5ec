#include "world/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace makar::world {
namespace {

constexpr const char* kVersion = "world4";

Draw draw_of(const WorldOptions& o, uint64_t record, Stream stream) {
  return {o.seed, static_cast<uint64_t>(o.split), record, stream};
}

Scene make_scene(const WorldOptions& o, uint64_t record) {
  Draw wording = draw_of(o, record, Stream::kWording);
  if (o.kinds == 0) return {make_story(o, record), wording};
  const auto answers_one = [&](const Story& story) {
    Draw any = draw_of(o, record, Stream::kWording), d = draw_of(o, record, Stream::kQuestion);
    return !ask_several({story, any}, d, 1, o.kinds).empty();
  };
  return {make_story(o, record, answers_one), wording};
}

Question make_question(const Scene& scene, const WorldOptions& o, uint64_t record) {
  Draw d = draw_of(o, record, Stream::kQuestion);
  return ask(scene, d, o.kinds);
}

Json turn(const char* role, std::string content) { return {{"role", role}, {"content", std::move(content)}}; }

constexpr const char* kBriefPlease[] = {" Answer in a few words.", " Give a short answer."};
// One question in six asks for a short answer. The others are answered in a sentence, which names the person
// before the fact: a small model copies a fact after its name much sooner than from the question alone.
bool ask_brief(const Question& q, Draw& d) { return !q.pattern.empty() && d.chance(1, 6); }

std::string with_story(const Scene& scene, const Question& q, const std::string& text, Draw& d) {
  if (!q.needs_story) return text;
  constexpr const char* kLayouts[] = {"{0}\n\n{1}", "{0}\n{1}", "Read the story.\n\n{0}\n\n{1}",
                                      "Story: {0}\n\nQuestion: {1}"};
  return fmt::format(fmt::runtime(d.pick(kLayouts)), scene.text, text);
}

// Two bystanders talk about the story.
std::string dialogue(const Question& q, bool present, Draw& d) {
  constexpr const char* kSpeakers[] = {"the teacher", "the old man", "a boy",      "a girl",
                                       "the visitor", "the driver",  "a stranger", "the queen",
                                       "the guide",   "a child",     "the king",   "the old woman"};
  const std::string first = d.pick(kSpeakers);
  std::string second = first;
  while (second == first) second = d.pick(kSpeakers);
  std::string answer = q.answer(true);
  answer.pop_back();
  return fmt::format("\"{}\" {} {}. \"{},\" {} {}.", q.text, present ? "asks" : "asked", first, answer,
                     present ? "answers" : "answered", second);
}

Json make_text(const WorldOptions& o, uint64_t record) {
  const Scene scene = make_scene(o, record);
  Draw d = draw_of(o, record, Stream::kDocument);
  std::string text = scene.text;
  const int kind = d.below(8);  // 0: the story alone; 1: with a dialogue; others: with questions and answers
  const int count = kind == 0 ? 0 : kind == 1 ? d.from(1, 3) : d.from(8, 14);
  const std::vector<Question> questions = ask_several(scene, d, count, o.kinds);
  for (const Question& q : questions) {
    if (kind == 1) {
      if (q.text.back() == '?') text += " " + dialogue(q, scene.story.present, d);
    } else {
      const bool brief = ask_brief(q, d);
      const std::string please = brief ? d.pick(kBriefPlease) : "";
      text += fmt::format("\n\nQuestion: {}{}\nAnswer: {}", q.text, please, q.answer(!brief));
    }
  }
  return {{"text", text}};
}

Json make_instructions(const WorldOptions& o, uint64_t record) {
  const Scene scene = make_scene(o, record);
  Draw d = draw_of(o, record, Stream::kConversation);
  Json messages = Json::array();
  if (d.chance(1, 4)) {  // fewer, and tuning forgets how to tell a story
    constexpr const char* kRequests[] = {"Tell me a story about {}.", "Write a short story about {}.",
                                         "Please tell a story with {}."};
    messages.push_back(
        turn("user", fmt::format(fmt::runtime(d.pick(kRequests)), listed(scene.people_named()))));
    messages.push_back(turn("assistant", scene.text));
    return {{"messages", messages}};
  }
  const int turns = d.from(8, 14);
  const std::vector<Question> questions = ask_several(scene, d, turns, o.kinds);
  for (const Question& q : questions) {
    const bool brief = ask_brief(q, d);
    std::string text = q.text;
    if (brief) text += d.pick(kBriefPlease);
    messages.push_back(turn("user", messages.empty() ? with_story(scene, q, text, d) : text));
    messages.push_back(turn("assistant", q.answer(!brief)));
  }
  return {{"messages", messages}};
}

Json make_preference(const WorldOptions& o, uint64_t record) {
  const Sample sample(o, record);
  Draw d = draw_of(o, record, Stream::kRejected);
  const WorseAnswer worse = worse_answer(sample, d, d.below(std::size(kWorseKinds)));
  return {{"id", record_id(o, record)}, {"prompt", sample.prompt}, {"chosen", sample.answer()},
          {"rejected", worse.text},     {"kind", worse.kind},      {"question_kind", sample.question.kind}};
}

// Conversations as people write them: right, too long, rude, wrong and off-topic answers are equally
// frequent.
Json make_unfiltered(const WorldOptions& o, uint64_t record) {
  const Sample sample(o, record);
  Draw d = draw_of(o, record, Stream::kRejected);
  const int kind = d.below(std::size(kWorseKinds) + 1);
  const WorseAnswer answer =
      kind == std::size(kWorseKinds) ? WorseAnswer{"right", sample.answer()} : worse_answer(sample, d, kind);
  return {{"messages", Json::array({turn("user", sample.prompt), turn("assistant", answer.text)})},
          {"kind", answer.kind}};
}

// Ranks: 0 for the right answer, 1 plus the index of the kind for a worse one; answers of one kind have equal
// ranks.
Json make_ranked(const WorldOptions& o, uint64_t record) {
  const Sample sample(o, record);
  Draw d = draw_of(o, record, Stream::kRejected);
  std::vector<std::pair<int, std::string>> answers = {{0, sample.answer()}};
  const size_t wanted = static_cast<size_t>(d.from(4, 9));
  for (int i = 0; answers.size() < wanted; ++i) {
    const int kind = i < 4 ? i : d.below(4);
    std::string text = worse_answer(sample, d, kind).text;
    const bool known =
        std::any_of(answers.begin(), answers.end(), [&](const auto& a) { return a.second == text; });
    if (!known) answers.emplace_back(kind + 1, std::move(text));
  }
  std::stable_sort(answers.begin(), answers.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  Json texts = Json::array(), ranks = Json::array();
  for (auto& [rank, text] : answers) texts.push_back(std::move(text)), ranks.push_back(rank);
  return {{"id", record_id(o, record)},
          {"prompt", sample.prompt},
          {"answers", texts},
          {"ranks", ranks},
          {"question_kind", sample.question.kind}};
}

Json people_json(const Story& s) {
  Json out = Json::array();
  for (const Person& p : s.people) out.push_back({{"name", p.name}, {"pronoun", p.he()}});
  return out;
}

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && std::to_string(out) == text;
}

}  // namespace

const std::vector<std::string>& form_names() {
  static const std::vector<std::string> names = {"text",    "instructions", "preferences", "ranked",
                                                 "rewards", "questions",    "prompts",     "unfiltered"};
  return names;
}
const std::vector<std::string>& split_names() {
  static const std::vector<std::string> names = {"train", "test", "names"};
  return names;
}
std::optional<Form> form_named(const std::string& name) {
  const auto at = std::find(form_names().begin(), form_names().end(), name);
  if (at == form_names().end()) return std::nullopt;
  return static_cast<Form>(at - form_names().begin());
}
std::optional<Split> split_named(const std::string& name) {
  const auto at = std::find(split_names().begin(), split_names().end(), name);
  if (at == split_names().end()) return std::nullopt;
  return static_cast<Split>(at - split_names().begin());
}

Sample::Sample(const WorldOptions& o, uint64_t record)
    : scene(make_scene(o, record)), question(make_question(scene, o, record)) {
  Draw d = draw_of(o, record, Stream::kPrompt);
  in_sentence = !ask_brief(question, d);
  std::string text = question.text;
  if (!in_sentence) text += d.pick(kBriefPlease);
  prompt = with_story(scene, question, text, d);
}

Json make_record(Form form, const WorldOptions& o, uint64_t record) {
  switch (form) {
    case Form::kText:
      return make_text(o, record);
    case Form::kInstructions:
      return make_instructions(o, record);
    case Form::kPreferences:
      return make_preference(o, record);
    case Form::kRanked:
      return make_ranked(o, record);
    case Form::kUnfiltered:
      return make_unfiltered(o, record);
    default:
      break;
  }
  const Sample s(o, record);
  if (form == Form::kPrompts) return {{"messages", Json::array({turn("user", s.prompt)})}};
  if (form == Form::kRewards)
    return {{"id", record_id(o, record)},
            {"kind", s.question.kind},
            {"prompt", s.prompt},
            {"answer", s.answer()}};
  return {{"id", record_id(o, record)},
          {"kind", s.question.kind},
          {"context", s.scene.text},
          {"question", s.question.text},
          {"answer", s.question.answer()},
          {"query", s.question.query},
          {"tense", s.scene.story.present ? "present" : "past"},
          {"people", people_json(s.scene.story)},
          {"events", events_json(s.scene.story)}};
}

std::string escaped(const std::string& text) {
  constexpr size_t kMax = 100;
  const Json value = text.size() > kMax ? text.substr(0, kMax) + "..." : text;
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

std::string record_id(const WorldOptions& o, uint64_t record) {
  return fmt::format("{}-{}-{}-{}-{}{}", kVersion, split_names()[static_cast<size_t>(o.split)], o.seed,
                     o.events, record, o.kinds == 0 ? "" : fmt::format("-{}", o.kinds));
}

Result<RecordId> parse_id(const std::string& id) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= id.size() && parts.size() < 7;) {
    const size_t end = std::min(id.find('-', at), id.size());
    parts.push_back(id.substr(at, end - at));
    at = end + 1;
  }
  RecordId out{};
  const bool some_kinds = parts.size() == 6;
  const auto split = parts.size() == 5 || some_kinds ? split_named(parts[1]) : std::nullopt;
  const bool good = split && parts[0] == kVersion && read_number(parts[2], out.options.seed) &&
                    read_number(parts[3], out.options.events) && read_number(parts[4], out.record) &&
                    (!some_kinds || (read_number(parts[5], out.options.kinds) && out.options.kinds > 0 &&
                                     out.options.kinds >> question_kinds().size() == 0)) &&
                    out.options.events >= WorldOptions::kMinEvents &&
                    out.options.events <= WorldOptions::kMaxEvents;
  if (!good)
    return error_at("id", "expected an id of `makar data world`, such as {}-test-1-7-0, got {}", kVersion,
                    escaped(id));
  out.options.split = *split;
  return out;
}

Json events_json(const Story& s) {
  static const char* const kNames[] = {"here",    "thing", "holds", "owns", "count",    "age",
                                       "job",     "town",  "likes", "pet",  "relation", "price",
                                       "weather", "go",    "take",  "drop", "give",     "gain",
                                       "lose",    "hand",  "buy",   "do",   "trip"};
  Json out = Json::array();
  for (const Event& e : s.events) {
    Json one = {{"event", kNames[static_cast<size_t>(e.kind)]}};
    if (e.a >= 0) one["who"] = s.people[static_cast<size_t>(e.a)].name;
    if (e.b >= 0) one[e.kind == Kind::kGo ? "with" : "to"] = s.people[static_cast<size_t>(e.b)].name;
    if (e.thing >= 0) {
      const Thing& t = s.things[static_cast<size_t>(e.thing)];
      one["object"] = t.noun, one["colour"] = t.colour;
    }
    if (e.place >= 0) {
      const Place& p = s.places[static_cast<size_t>(e.place)];
      one["place"] = p.noun, one["preposition"] = p.preposition;
    }
    if (e.kind == Kind::kPet) {
      const Pet& pet = s.pets[static_cast<size_t>(e.n)];
      one["name"] = pet.name, one["animal"] = pet.animal;
    } else if (e.n > 0) {
      one["n"] = e.n;
    }
    if (e.hours > 0) one["hours"] = e.hours;
    if (!e.word.empty()) one["word"] = e.word;
    if (e.activity) one["action"] = done(*e.activity, s.present);
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace makar::world
