// The pickle instructions for the stack, containers, names and the memo.
#include <cstdlib>

#include "base/quote.h"
#include "formats/pickle_machine.h"

namespace makar {

PickleValue PickleMachine::integer(int64_t v, Kind kind) {
  PickleValue out;
  out.kind = kind, out.integer = v;
  return out;
}

PickleValue PickleMachine::items(std::vector<const PickleValue*> list) {
  PickleValue out;
  out.kind = Kind::kItems, out.items = std::move(list);
  return out;
}

PickleValue PickleMachine::with_text(Kind kind, std::string s) {
  PickleValue out;
  out.kind = kind, out.text = std::move(s);
  return out;
}

Status PickleMachine::push(PickleValue v) {
  out_.values.push_back(std::move(v));
  stack_.push_back(&out_.values.back());
  return Done{};
}

Result<std::vector<PickleValue*>> PickleMachine::take(size_t n) {
  const size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() < floor + n) return broken("a value is missing");
  std::vector<PickleValue*> out(stack_.end() - static_cast<std::ptrdiff_t>(n), stack_.end());
  stack_.resize(stack_.size() - n);
  return out;
}

Result<std::vector<PickleValue*>> PickleMachine::pop_mark() {
  if (marks_.empty()) return broken("a mark is missing");
  const size_t n = stack_.size() - marks_.back();
  auto out = take(n);
  marks_.pop_back();
  return out;
}

Status PickleMachine::stop() {
  MAKAR_TRY(const auto top, take(1));
  out_.root = top[0];
  stopped_ = true;
  return Done{};
}

Status PickleMachine::items_since_mark() {
  MAKAR_TRY(const auto list, pop_mark());
  return push(items({list.begin(), list.end()}));
}

Status PickleMachine::tuple(size_t n) {
  MAKAR_TRY(const auto list, take(n));
  return push(items({list.begin(), list.end()}));
}

Result<PickleValue*> PickleMachine::top(Kind kind) {
  MAKAR_TRY(const auto popped, take(1));
  stack_.push_back(popped[0]);
  if (popped[0]->kind != kind) return broken("an item is added to a value of another kind");
  return popped[0];
}

Status PickleMachine::append() {
  MAKAR_TRY(const auto popped, take(1));
  MAKAR_TRY(PickleValue * list, top(Kind::kItems));
  list->items.push_back(popped[0]);
  return Done{};
}

Status PickleMachine::append_all() {
  MAKAR_TRY(const auto new_items, pop_mark());
  MAKAR_TRY(PickleValue * list, top(Kind::kItems));
  list->items.insert(list->items.end(), new_items.begin(), new_items.end());
  return Done{};
}

Status PickleMachine::add_pairs(PickleValue& dict, const std::vector<PickleValue*>& flat) {
  if (flat.size() % 2) return broken("a key has no value");
  for (size_t i = 0; i < flat.size(); i += 2) dict.pairs.emplace_back(flat[i], flat[i + 1]);
  return Done{};
}

Status PickleMachine::new_dict() {
  MAKAR_TRY(const auto flat, pop_mark());
  PickleValue v;
  v.kind = Kind::kDict;
  MAKAR_RETURN_IF_ERROR(add_pairs(v, flat));
  return push(std::move(v));
}

Status PickleMachine::set_item() {
  MAKAR_TRY(const auto flat, take(2));
  MAKAR_TRY(PickleValue * dict, top(Kind::kDict));
  return add_pairs(*dict, flat);
}

Status PickleMachine::set_items() {
  MAKAR_TRY(const auto flat, pop_mark());
  MAKAR_TRY(PickleValue * dict, top(Kind::kDict));
  return add_pairs(*dict, flat);
}

Status PickleMachine::add_global(const std::string& module, const std::string& name) {
  std::string full_name = module + "." + name;
  if (!allowed_(full_name))
    return error_of(Error::Kind::kUnsupported, here(),
                    "the pickle refers to {}, which tensors do not need; refused because it could run "
                    "code: do not load this file elsewhere unless you trust its author",
                    quote(full_name.substr(0, 200)));
  return push(with_text(Kind::kGlobal, std::move(full_name)));
}

Status PickleMachine::global() {
  MAKAR_TRY(const std::string module, line());
  MAKAR_TRY(const std::string name, line());
  return add_global(module, name);
}

Status PickleMachine::stack_global() {
  MAKAR_TRY(const auto operands, take(2));
  if (operands[0]->kind != Kind::kText || operands[1]->kind != Kind::kText)
    return broken("a name is not a text");
  return add_global(operands[0]->text, operands[1]->text);
}

Status PickleMachine::call() {
  MAKAR_TRY(const auto operands, take(2));
  if (operands[0]->kind != Kind::kGlobal || operands[1]->kind != Kind::kItems)
    return broken("a call has no name or no arguments");
  if (operands[0]->text == "collections.OrderedDict") {
    PickleValue dict;
    dict.kind = Kind::kDict;
    return push(std::move(dict));
  }
  PickleValue v = with_text(Kind::kCall, operands[0]->text);
  v.arguments = operands[1];
  return push(std::move(v));
}

Status PickleMachine::storage() {
  MAKAR_TRY(const auto popped, take(1));
  if (popped[0]->kind != Kind::kItems) return broken("a storage is not described by a tuple");
  PickleValue v;
  v.kind = Kind::kStorage, v.arguments = popped[0];
  return push(std::move(v));
}

Status PickleMachine::store_memo(uint64_t key) {
  if (stack_.empty()) return broken("a value is missing");
  memo_[key] = stack_.back();
  return Done{};
}

Status PickleMachine::push_memo(uint64_t key) {
  const auto it = memo_.find(key);
  if (it == memo_.end()) return broken("a memo entry is read before it is stored");
  stack_.push_back(it->second);
  return Done{};
}

Status PickleMachine::put(size_t n) {
  MAKAR_TRY(const uint64_t key, number(n));
  return store_memo(key);
}

Status PickleMachine::get(size_t n) {
  MAKAR_TRY(const uint64_t key, number(n));
  return push_memo(key);
}

Status PickleMachine::put_line() {
  MAKAR_TRY(const std::string s, line());
  return store_memo(std::strtoull(s.c_str(), nullptr, 10));
}

Status PickleMachine::get_line() {
  MAKAR_TRY(const std::string s, line());
  return push_memo(std::strtoull(s.c_str(), nullptr, 10));
}

}  // namespace makar
