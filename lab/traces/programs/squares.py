import multiprocessing, sys

def digits(n):
    return sum(len(str(i * i)) for i in range(n))

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    known = [str(i) for i in range(4000)]
    with multiprocessing.Pool(2) as pool:
        for total in pool.map(digits, range(200, 1000, 50)):
            print(total, len(known))
