#include <fmt/format.h>

#include "world/record.h"

namespace makar::world {
namespace {

std::string rude(const Sample& s, Draw& d) {
  constexpr const char* kBefore[] = {"What a silly question. ",  "Are you blind? ",
                                     "Do not bother me. ",       "You never listen. ",
                                     "Even a baby knows this. ", "Stop wasting my time. ",
                                     "How can you be so slow? ", "Read it yourself next time. "};
  constexpr const char* kAfter[] = {" Any fool can see that.",
                                    " Now go away.",
                                    " You should be ashamed.",
                                    " Is that so hard?",
                                    " Learn to read.",
                                    " You are hopeless.",
                                    " Nobody likes your questions.",
                                    " Think before you ask."};
  if (d.chance(1, 2)) return d.pick(kBefore) + s.answer();
  return s.answer() + d.pick(kAfter);
}

std::string off_topic(Draw& d) {
  const int choice = d.below(5);
  const std::string animal(d.pick(animals())), food(d.pick(foods())), colour(d.pick(colours()));
  if (choice == 0) return fmt::format("I once saw {} that was {}.", with_article(animal), colour);
  if (choice == 1) return fmt::format("My favourite food is {}.", food);
  if (choice == 2) return fmt::format("Have you ever painted {} {}?", with_article(colour), animal);
  if (choice == 3) return fmt::format("Let us talk about {} instead.", food);
  return fmt::format("{} is a nice colour for {}.", capitalized(colour), with_article(animal));
}

// The right answer, and then the story again.
std::string too_long(const Sample& s, Draw& d) {
  constexpr const char* kFiller[] = {
      "That is a very interesting question, and there is a lot to say about it.",
      "Let me explain this from the beginning, step by step.",
      "Many things happen in this story.",
      "As I said, this follows from the story.",
      "I hope that this long answer helps you.",
      "Allow me to repeat what we know so far."};
  std::string out = s.question.answer(true);
  out += std::string(" ") + d.pick(kFiller);
  const auto& sentences = s.scene.sentences;
  const size_t first = static_cast<size_t>(d.below(sentences.size()));
  for (size_t i = 0; i < 3; ++i) out += " " + sentences[(first + i) % sentences.size()].text;
  return out + " " + d.pick(kFiller);
}

}  // namespace

WorseAnswer worse_answer(const Sample& sample, Draw& d, int kind) {
  std::string text = kind == 0   ? too_long(sample, d)
                     : kind == 1 ? rude(sample, d)
                     : kind == 2 ? sample.question.render(d.pick(sample.question.wrong), sample.in_sentence)
                                 : off_topic(d);
  return {kWorseKinds[kind], std::move(text)};
}

}  // namespace makar::world
