// The interpreter: statements.
#include "text/template/interpreter.h"

namespace makar::jinja {

using Type = Statement::Type;

Interpreter::Interpreter(const Limits& limits, Budget& b, std::time_t now)
    : heap(b),
      budget(b),
      limits_(limits),
      stack_(limits.max_stack_bytes),
      now_(now),
      scope_(std::make_shared<Scope>(nullptr)) {
  for (const char* name : {"raise_exception", "strftime_now", "range", "dict", "namespace"}) {
    auto f = std::make_shared<CallableObject>();
    f->name = name;
    scope_->set(name, Value(Kind::kCallable, std::move(f)));
  }
}

Interpreter::~Interpreter() {
  for (const auto& n : namespaces_) n->items.clear();
  for (const auto& s : macro_scopes_) s->names.clear();
}

Interpreter::Enter::Enter(Interpreter& i, std::shared_ptr<Scope> parent) : interpreter(i), outer(i.scope_) {
  if (++i.depth_ > i.limits_.max_depth) {
    --i.depth_;
    fail_limit(fmt::format("blocks and macros nest deeper than {} levels", i.limits_.max_depth));
  }
  i.scope_ = std::make_shared<Scope>(parent ? std::move(parent) : i.scope_);
}
Interpreter::Enter::~Enter() {
  interpreter.scope_ = outer;
  --interpreter.depth_;
}

Interpreter::Output::Output(Interpreter& i) : interpreter(i), outer(i.output_) { i.output_ = this; }
Interpreter::Output::~Output() {
  interpreter.output_ = outer;
  interpreter.budget.release(charged);
}

void Interpreter::emit(const Traced& text) {
  budget.touch(text.size());
  budget.allocate(text.size());
  output_->charged += text.size();
  output_->text.append(text, 0, text.size(), generation_origin_);
  budget.check_output(output_->text.size());
}

Traced Interpreter::capture(const Body& body) {
  Output output(*this);
  execute(body);
  return std::move(output.text);
}

Traced Interpreter::run(const Program& program) {
  // A new scope, so that `set` at the top level shadows input variables without changing them.
  const Enter enter(*this);
  return capture(program.body);
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  check_stack();
  for (const Statement* s : body) {
    budget.spend();
    try {
      if (const Flow flow = execute(*s); flow != Flow::kNext) return flow;
    } catch (Failure& f) {
      if (f.line == 0) f.line = s->line, f.column = s->column;
      throw;
    }
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& s) {
  switch (s.type) {
    case Type::kText:
      emit(Traced(s.text));
      break;
    case Type::kPrint: {
      const Value v = evaluate(*s.expression);
      if (v.is_string())
        emit(v.traced());
      else
        emit(print(v, heap));
      break;
    }
    case Type::kIf:
      for (const auto& [condition, body] : s.branches)
        if (truthy(evaluate(*condition))) return execute(body);
      return execute(s.otherwise);
    case Type::kFor:
      return execute_for(s);
    case Type::kSet:
      assign(s.targets, evaluate(*s.expression));
      break;
    case Type::kSetBlock:
      assign(s.targets, apply_filters(s, capture_block(s)));
      break;
    case Type::kFilterBlock:
      emit(print(apply_filters(s, capture_block(s)), heap));
      break;
    case Type::kMacro:
      scope_->set(s.text, define_macro(s));
      break;
    case Type::kCallBlock:
      execute_call_block(s);
      break;
    case Type::kWith:
      return execute_with(s);
    case Type::kGeneration:
      return execute_generation(s);
    case Type::kBreak:
      return Flow::kBreak;
    case Type::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

// The output of a block, executed in a new scope.
Value Interpreter::capture_block(const Statement& s) {
  const Enter enter(*this);
  return heap.string(capture(s.body));
}

Interpreter::Flow Interpreter::execute_with(const Statement& s) {
  std::vector<Value> values;
  for (const Expression* e : s.values) values.push_back(evaluate(*e));
  const Enter enter(*this);
  for (size_t i = 0; i < values.size(); ++i) scope_->set(s.targets[i], std::move(values[i]));
  return execute(s.body);
}

Interpreter::Flow Interpreter::execute_generation(const Statement& s) {
  const Enter enter(*this);
  const Origin before = generation_origin_;
  generation_origin_ = kFromAssistant;
  const Flow flow = execute(s.body);
  generation_origin_ = before;
  return flow;
}

Interpreter::Flow Interpreter::execute_for(const Statement& s) {
  std::vector<Value> items = iterate(evaluate(*s.expression), heap);
  if (s.condition) {
    std::vector<Value> selected;
    for (Value& item : items) {
      const Enter enter(*this);
      assign(s.targets, item);
      if (truthy(evaluate(*s.condition))) selected.push_back(std::move(item));
    }
    items = std::move(selected);
  }
  if (items.empty()) {
    const Enter enter(*this);
    return execute(s.otherwise);
  }
  auto loop = std::make_shared<LoopObject>();
  loop->list = heap.list(std::move(items));
  loop->depth = loop->list.object()->depth + 1;
  if (loop->depth > kMaxContainerDepth) fail_limit("loops are nested too deeply");
  loop->level = ++loops_;
  loop->charge(budget, sizeof(LoopObject));
  const Value handle(Kind::kLoop, loop);
  const size_t count = loop->list.items().size();
  for (; loop->index < count; ++loop->index) {
    budget.spend();
    const Enter enter(*this);
    assign(s.targets, loop->list.items()[loop->index]);
    scope_->set("loop", handle);
    if (execute(s.body) == Flow::kBreak) break;
  }
  --loops_;
  return Flow::kNext;
}

void Interpreter::assign(const std::vector<std::string>& targets, Value value) {
  const auto bind = [&](const std::string& target, Value v) {
    const auto dot = target.find('.');
    if (dot == std::string::npos) return scope_->set(target, std::move(v));
    Value owner;
    for (Scope* s = scope_.get(); s && owner.is_undefined(); s = s->parent.get())
      if (const Value* found = s->find(target.substr(0, dot))) owner = *found;
    if (!owner.is(Kind::kNamespace))
      fail(fmt::format("'{}' is not a namespace; attributes can be set on namespace(...) only",
                       target.substr(0, dot)));
    const std::string name = target.substr(dot + 1);
    for (auto& [k, old] : owner.dict().items)
      if (k.is_string() && k.text() == name) return void(old = std::move(v));
    owner.dict().charge(budget, 2 * sizeof(Value));
    owner.dict().items.emplace_back(heap.string(name), std::move(v));
  };
  if (targets.size() == 1) return bind(targets[0], std::move(value));
  const std::vector<Value> parts = iterate(value, heap);
  if (parts.size() != targets.size())
    fail(fmt::format("cannot unpack {} values into {} names", parts.size(), targets.size()));
  for (size_t i = 0; i < parts.size(); ++i) bind(targets[i], parts[i]);
}

Value Interpreter::apply_filters(const Statement& s, Value value) {
  for (const Expression* f : s.values) value = filter(f->name, value, arguments(*f));
  return value;
}

Value Interpreter::define_macro(const Statement& s) {
  auto macro = std::make_shared<CallableObject>();
  macro->charge(budget, sizeof(CallableObject) + sizeof(Scope));
  macro->type = CallableObject::Type::kMacro;
  macro->name = s.text;
  macro->macro = &s;
  macro->scope = scope_;
  if (macro_scopes_.empty() || macro_scopes_.back() != scope_) {
    budget.allocate(sizeof(Scope) + 64);  // macro scopes live until the end of the rendering
    macro_scopes_.push_back(scope_);
  }
  return {Kind::kCallable, std::move(macro)};
}

void Interpreter::execute_call_block(const Statement& s) {
  const Expression& e = *s.expression;
  const Value macro = evaluate(*e.children[0]);
  Arguments args = arguments(e);
  args.named.emplace_back("caller", define_macro(s));
  emit(print(call(macro, args), heap));
}

Value Interpreter::call_macro(const CallableObject& macro, const Arguments& arguments) {
  const Statement& s = *macro.macro;
  const size_t count = s.targets.size(), first_default = count - s.values.size();
  std::vector<std::pair<std::string, Value>> rest_named;
  for (const auto& [name, value] : arguments.named)
    if (std::find(s.targets.begin(), s.targets.end(), name) == s.targets.end())
      rest_named.emplace_back(name, value);
  const Enter enter(*this, macro.scope);
  for (size_t i = 0; i < count; ++i) {
    if (const Value* argument = arguments.get(i, s.targets[i]))
      scope_->set(s.targets[i], *argument);
    else if (i >= first_default)
      scope_->set(s.targets[i], evaluate(*s.values[i - first_default]));
    else
      scope_->set(s.targets[i], undefined("parameter '" + s.targets[i] + "' was not provided"));
  }
  std::vector<Value> rest;
  for (size_t i = count; i < arguments.positional.size(); ++i) rest.push_back(arguments.positional[i]);
  scope_->set("varargs", heap.list(std::move(rest), Kind::kTuple));
  std::vector<std::pair<Value, Value>> extra;
  for (auto& [name, value] : rest_named) {
    if (name == "caller")
      scope_->set("caller", value);
    else
      extra.emplace_back(heap.string(name), value);
  }
  scope_->set("kwargs", heap.dict(std::move(extra)));
  return heap.string(capture(s.body));
}

}  // namespace makar::jinja
