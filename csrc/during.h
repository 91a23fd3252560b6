// A value that a variable has for as long as a call runs, however the call ends.

#pragma once

namespace plumb {

template <typename T> class during {
  public:
    during(T & variable, T value) : variable(variable), before(variable) { variable = value; }

    ~during() { variable = before; }

    during(const during &)             = delete;
    during & operator=(const during &) = delete;

  private:
    T & variable;
    T   before;
};

} // namespace plumb
