// "%s of %d" % (a, b) and "{} of {}".format(a, b).
#pragma once
#include "text/template/interpreter.h"

namespace makar::jinja {

Value format_percent(const Traced& format, const Arguments& arguments, Interpreter& in);
Value format_braces(const Traced& format, const Arguments& arguments, Interpreter& in);

}  // namespace makar::jinja
